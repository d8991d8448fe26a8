"""Real definitions and real objects, where the corpus is present."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.schema.crd.validation import default_crd, initial_status, validate_crd, warnings_for_crd
from kcp_py.schema.rules.evaluation import evaluate
from kcp_py.schema.structural.correlated import ABSENT
from tests.corpus import CORPUS, crd_in, needs_corpus, read, rows, version_schema

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
    "crs-invalid/apiextensions.crossplane.io_managedresourcedefinitions/mrd-immutable-updated-0-cef845be.yaml": "only as an update",
    "crs-invalid/apiextensions.crossplane.io_managedresourcedefinitions/mrd-active-to-inactive-0-12e00fe8.yaml": "only as an update",
    "crs-invalid/apiextensions.crossplane.io_compositeresourcedefinitions/xrd-immutable-updated-0-1d53c82f.yaml": "only as an update",
    "crs-invalid/networking.istio.io_virtualservices/invalid-empty-rollout-vsvc-1-9a7daa8c.yaml": "only metadata.name is invalid",
    "crs-invalid/gateway.networking.k8s.io_httproutes/invalid-15-19839ac6.yaml": "only metadata.name is invalid",
    "crs-invalid/gateway.networking.k8s.io_httproutes/invalid-16-a36d4634.yaml": "only metadata.name is invalid",
    "crs-invalid/gateway.networking.k8s.io_httproutes/invalid-17-ae80354f.yaml": "only metadata.name is invalid",
    "crs-invalid/gateway.networking.k8s.io_httproutes/invalid-20-4787cd41.yaml": "only metadata.name is invalid",
    "crs-invalid/gateway.networking.k8s.io_httproutes/invalid-22-10c819f2.yaml": "only metadata.name is invalid",
}
"""Objects labelled invalid whose fault is neither in the schema nor in its CEL rules."""

NULL = "a null that may not be is dropped before anything is checked"
OTHERWISE = {
    "crs-invalid/extensions.istio.io_wasmplugins/wasm-invalid-11-905b7cd6.yaml": NULL,
    "crs-invalid/extensions.istio.io_wasmplugins/wasm-invalid-12-f3327b6d.yaml": NULL,
    "crs-invalid/security.istio.io_peerauthentications/peerauth-invalid-1-b204ebcb.yaml": "cel-go has other words for a bad number now",
}
"""Objects that are refused in other words, and why."""

WITHOUT_RULES = (
    "apiextensions.crossplane.io_compositions/composition-0-",
    "gateway.networking.x-k8s.io_xbackendtrafficpolicies/",
    "telemetry.istio.io_telemetries/k8sgateway-selector-5-f3a7a7d0.yaml",
)
"""Objects that were labelled without a look at the CEL rules of their kind, which refuse them."""


@cache
def compiled(path: str, version: str) -> StructuralSchema:
    return compile_schema(version_schema(path, version))


@pytest.mark.slow
def test_every_definition_is_judged_as_upstream_judges_it():
    """All definitions but the named exceptions pass, on create and on an update that changes nothing."""
    judged: dict[str, list[str]] = {}
    for row in rows("crds-index.jsonl"):
        path = row["file"]
        if path.startswith("crds-legacy"):
            continue
        crd = read(path)
        default_crd(crd)
        crd["status"] = initial_status(crd)
        if errors := [str(error) for error in validate_crd(crd)]:
            judged[path] = errors
        else:
            warnings_for_crd(crd)
            assert validate_crd(crd, crd) == [], path
    assert judged.keys() == REFUSED.keys(), judged


@pytest.mark.slow
def test_every_schema_of_a_definition_compiles():
    """Each version of each definition can be pruned, defaulted and validated with."""
    for row in rows("crds-index.jsonl"):
        if row["file"].startswith(("crds/", "crds-huge/")):
            for version in crd_in(row["file"])["spec"]["versions"]:
                schema = compile_schema(version["schema"]["openAPIV3Schema"])
                obj: dict[str, Any] = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}}
                assert schema.prune(obj) == []
                schema.default(obj)
                schema.validate(obj)


def judged(schema: StructuralSchema, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """The errors of all rules for an object, those of CEL included unless it is invalid otherwise."""
    errors = schema.validate(obj, old)
    if not errors and schema.rules is not None:
        errors = evaluate(schema.rules, obj, ABSENT if old is None else old, schema=schema.root).errors
    return [str(error) for error in errors]


def without_values(text: str) -> str:
    """A message without what it prints of the value, which is another thing since 1.34."""
    return re.sub(r'Invalid value(: ("[^"]*"|-?[\d.]+))?(: )?', "", text)


@pytest.mark.slow
def test_every_object_is_judged_as_labelled():
    """Valid objects pass, lose only fields labelled unknown, and are stable; invalid ones are refused in the words of their labels."""
    refused = worded = 0
    for row in rows("crs-index.jsonl"):
        path = row["path"]
        if path in UNREADABLE:
            continue
        obj = read(path)
        schema = compiled(row["crd_file"], row["version"])
        dropped = schema.prune(obj)
        schema.default(obj)
        errors = judged(schema, obj)
        if row["valid"]:
            assert errors == [] or any(part in path for part in WITHOUT_RULES), path
            assert bool(dropped) == bool(row.get("unknown_fields")), (path, dropped)
            before = repr(obj)
            assert schema.prune(obj) == []
            schema.default(obj)
            assert repr(obj) == before, path
        elif errors:
            refused += 1
            if "error contains" in row["basis"]:
                found = without_values("; ".join(errors))
                assert without_values(row["expected"]) in found or path in OTHERWISE, (path, errors)
                worded += 1
        else:
            assert path in ACCEPTED, path
    assert refused >= 103
    assert worded >= 40


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
        assert judged(compiled(row["crd_file"], row["version_update"]), new, old) == [], row["path"]
