"""Real definitions and real objects, where the corpus is present."""

from __future__ import annotations

from functools import cache
from typing import Any

from kcp_py.schema.definition import default_definition, initial_status, validate_definition, warnings_for_definition
from kcp_py.schema.structural import StructuralSchema, compile_schema
from tests.schema.corpus import CORPUS, definition, needs_corpus, read, rows, version_schema

pytestmark = needs_corpus

REFUSED = {
    "crds/kubernetes.crossplane.io_objects.yaml": "the webhook's service has neither name nor namespace; its operator fills them in",
    "crds-variants/gateway.networking.k8s.io_tlsroutes__2_istio.yaml": "protected group without the approval annotation",
    "crds-fixtures/example.io_examples.yaml": "preserveUnknownFields, and a version without schema",
}
"""Definitions that upstream refuses too, and why."""

UNREADABLE = {
    "crs/networking.istio.io_serviceentries/serviceentry-valid-0-7df9842d.yaml": "PyYAML refuses a plain scalar that go-yaml reads"
}

ACCEPTED = {
    "crs-invalid/sagemaker.services.k8s.aws_endpoints/invalid-before-create-0-e921c0e6.yaml": "only metadata.name is invalid",
    "crs-invalid/sagemaker.services.k8s.aws_endpoints/invalid-create-attempted-0-561f2ff1.yaml": "only metadata.name is invalid",
}
"""Objects labelled invalid whose fault is neither in the schema nor in its CEL rules."""


@cache
def compiled(path: str, version: str) -> StructuralSchema:
    return compile_schema(version_schema(path, version))


def test_every_definition_is_judged_as_upstream_judges_it():
    """All definitions but the named exceptions pass, on create and on an update that changes nothing."""
    judged: dict[str, list[str]] = {}
    for row in rows("crds-index.jsonl"):
        path = row["file"]
        if path.startswith("crds-legacy"):
            continue
        crd = read(path)
        default_definition(crd)
        crd["status"] = initial_status(crd)
        if errors := [str(error) for error in validate_definition(crd)]:
            judged[path] = errors
        else:
            warnings_for_definition(crd)
            assert validate_definition(crd, crd) == [], path
    assert judged.keys() == REFUSED.keys(), judged


def test_every_schema_of_a_definition_compiles():
    """Each version of each definition can be pruned, defaulted and validated with."""
    for row in rows("crds-index.jsonl"):
        if row["file"].startswith(("crds/", "crds-huge/")):
            for version in definition(row["file"])["spec"]["versions"]:
                schema = compile_schema(version["schema"]["openAPIV3Schema"])
                obj: dict[str, Any] = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}}
                assert schema.prune(obj) == []
                schema.default(obj)
                schema.validate(obj)


def test_every_object_is_judged_as_labelled():
    """Valid objects pass, lose only fields labelled unknown, and are stable; invalid ones are refused unless it takes CEL to see."""
    needs_cel = refused = 0
    for row in rows("crs-index.jsonl"):
        path = row["path"]
        if path in UNREADABLE:
            continue
        obj = read(path)
        schema = compiled(row["crd_file"], row["version"])
        dropped = schema.prune(obj)
        schema.default(obj)
        errors = [str(error) for error in schema.validate(obj)]
        if row["valid"]:
            assert errors == [], path
            assert bool(dropped) == bool(row.get("unknown_fields")), (path, dropped)
            before = repr(obj)
            assert schema.prune(obj) == []
            schema.default(obj)
            assert repr(obj) == before, path
        elif errors:
            refused += 1
        elif row["cel"]:
            needs_cel += 1
        else:
            assert path in ACCEPTED, path
    assert refused >= 58
    assert needs_cel <= 54


def test_pairs_of_objects_may_be_updated():
    """Both states of an update are valid, and so is the step from one to the other."""
    for row in rows("crs-pairs-index.jsonl"):
        if not row["valid"] or CORPUS is None:
            continue
        old, new = read(row["create"]), read(row["update"])
        for obj, version in ((old, row["version"]), (new, row["version_update"])):
            schema = compiled(row["crd_file"], version)
            schema.prune(obj)
            schema.default(obj)
        assert [str(error) for error in compiled(row["crd_file"], row["version_update"]).validate(new, old)] == [], row["path"]
