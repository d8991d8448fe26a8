"""The data of built-in kinds is complete in itself and says what the sources say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, builtin_kinds, models
from tests.bootstrap.references import references

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "kcp_py" / "bootstrap"


def test_references_resolve():
    """No definition refers to one that does not ship."""
    known = models()
    assert {target for schema in known.values() for target in references(schema)} <= {REFERENCE_PREFIX + name for name in known}


def test_kinds_have_definitions_of_their_own_name():
    """Every kind and its list has a definition that names group, version and kind."""
    for kind in builtin_kinds():
        listed = [(kind.model + "List", kind.list_kind)] if "list" in kind.verbs else []
        for name, wanted in ((kind.model, kind.kind), *listed):
            assert models()[name]["x-kubernetes-group-version-kind"] == [
                {"group": kind.group, "kind": wanted, "version": kind.version},
            ]


def test_verbs():
    """They are those of discovery: sorted, and as upstream serves them. Reviews are created and nothing else."""
    for kind in builtin_kinds():
        assert list(kind.verbs) == sorted(kind.verbs)
        assert (kind.verbs == ["create"]) is kind.kind.endswith("Review")
        assert ("deletecollection" in kind.verbs) is (kind.plural != "namespaces" and not kind.kind.endswith("Review"))


def test_status_subresources():
    """Exactly the kinds that upstream serves with /status have it."""
    assert {kind.plural for kind in builtin_kinds() if "status" in kind.subresources} == {
        "namespaces",
        "resourcequotas",
        "certificatesigningrequests",
        "customresourcedefinitions",
        "validatingadmissionpolicies",
        "logicalclusters",
    }


def test_nothing_of_the_source_dialect_is_left():
    """Types are single, references are OpenAPI v3's, and the generated files carry no descriptions."""
    for file in (FOLDER / "models").glob("*.json"):
        for schema in _schemas(json.loads(file.read_text()).values()):
            assert isinstance(schema.get("type", ""), str)
            assert "description" not in schema or file.name.startswith("core.kcp.io")
            assert schema.get("$ref", REFERENCE_PREFIX).startswith(REFERENCE_PREFIX)


def test_files_are_sorted():
    """The files are in the form in which the script writes them, so that a new version shows as a small change."""
    for file in [*(FOLDER / "models").glob("*.json"), FOLDER / "kinds.json"]:
        assert file.read_text() == json.dumps(json.loads(file.read_text()), indent=1, sort_keys=True, ensure_ascii=False) + "\n", file.name


def test_script_reproduces_the_files(tmp_path):
    """Running the script again changes nothing."""
    pytest.importorskip("lightkube.resources.core_v1")
    pytest.importorskip("kubernetes_validate")
    (tmp_path / "kcp_py" / "bootstrap" / "models").mkdir(parents=True)
    subprocess.run([sys.executable, ROOT / "hack" / "update_builtin_kinds.py"], cwd=tmp_path, check=True, capture_output=True)
    for file in (tmp_path / "kcp_py" / "bootstrap").rglob("*.json"):
        assert file.read_text() == (FOLDER / file.relative_to(tmp_path / "kcp_py" / "bootstrap")).read_text(), file.name


def _schemas(schemas: Any) -> Iterator[dict[str, Any]]:
    for schema in schemas:
        yield schema
        yield from _schemas(schema.get("properties", {}).values())
        yield from _schemas([schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)])
