"""`kcp-py generate models`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcp_py.cli.exits import CommandError
from kcp_py.cli.generatemodels import _find, read_crds
from kcp_py.cli.root import run
from kcp_py.testing.client_objects import widget_crd


def test_definitions_are_found_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In directories, lists, files with several documents, JSON, and standard input; other objects are left out."""
    crd = widget_crd()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    (tmp_path / "below").mkdir()
    (tmp_path / "below/many.yaml").write_text(yaml.safe_dump_all([other, crd, None, "text"]))
    (tmp_path / "list.json").write_text(json.dumps({"kind": "List", "items": [crd, other]}))
    (tmp_path / "notes.txt").write_text("{")
    assert read_crds(str(tmp_path)) == [crd, crd]
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(crd)))
    assert read_crds("-") == [crd]
    (tmp_path / "broken.yaml").write_text("{")
    with pytest.raises(CommandError, match="not YAML"):
        read_crds(str(tmp_path))
    with pytest.raises(CommandError, match="No such file"):
        read_crds(str(tmp_path / "missing.yaml"))


def test_a_module_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To standard output or to a file; mistakes are one line."""
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(widget_crd()))
    assert run(["generate", "models", str(file)]) == 0
    text = capsys.readouterr().out
    compile(text, "written", "exec")
    assert "class Widget(Model):" in text
    target = tmp_path / "types.py"
    assert run(["generate", "models", str(file), "-o", str(target), "--style", "dataclass"]) == 0
    assert "@dataclass(kw_only=True)\nclass Widget:" in target.read_text()
    file.write_text("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {}\n")
    capsys.readouterr()
    for arguments, code in (([], 2), ([str(file)], 1), (["--from-cluster", "A:B"], 2), ([str(target)], 1)):
        assert run(["generate", "models", *arguments]) == code
        assert len(capsys.readouterr().err.splitlines()) == 1


class Server:
    """Answers as a server with one kind."""

    def request(self, _: str, path: str) -> dict[str, Any]:
        kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
        answers: dict[str, dict[str, Any]] = {
            "/clusters/a/api/v1": {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]},
            "/clusters/a/openapi/v3/api/v1": {
                "components": {"schemas": {"x": {}, "v1.ConfigMap": {"x-kubernetes-group-version-kind": [kind]}}}
            },
        }
        return answers[path]


def test_a_kind_of_a_server_is_found() -> None:
    """By discovery and by its OpenAPI document."""
    models: dict[str, Any] = {}
    about = {"group": "", "version": "v1", "kind": "ConfigMap", "namespaced": True}
    assert _find(Server(), "/clusters/a", "configmaps", models) == ("v1.ConfigMap", "configmaps", about)
    assert set(models) == {"x", "v1.ConfigMap"}
    with pytest.raises(CommandError, match="no such resource"):
        _find(Server(), "/clusters/a", "boats", models)
