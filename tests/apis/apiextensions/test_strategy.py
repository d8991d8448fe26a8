"""The strategy of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from kcp_py.apis.apiextensions.strategy import CLEANUP_FINALIZER, CRDStrategy
from tests.client.registry import make_crd


def created(**names: Any) -> dict[str, Any]:
    obj = make_crd(**names)
    obj["metadata"]["generation"] = 1
    CRDStrategy().prepare_for_create(obj)
    return obj


def test_create_sets_the_status() -> None:
    """Whatever status a client sends, a new definition has none but its stored version; names are defaulted."""
    obj = make_crd()
    obj["status"] = {"storedVersions": ["v7"], "conditions": [{"type": "Established", "status": "True"}]}
    CRDStrategy().prepare_for_create(obj)
    assert obj["status"] == {"conditions": None, "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": ["v1"]}
    assert obj["spec"]["names"] == {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}


def test_create_bears_a_definition_without_anything() -> None:
    """Missing fields are reported by validation."""
    obj: dict[str, Any] = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}}
    strategy = CRDStrategy()
    strategy.prepare_for_create(obj)
    assert strategy.validate(obj)


def test_a_new_storage_version_is_added_to_the_stored_ones() -> None:
    """From the update on that makes it the storage version, objects may be stored in it."""
    old = created()
    new = make_crd()
    new["spec"]["versions"][0]["storage"] = False
    new["spec"]["versions"].append({**new["spec"]["versions"][0], "name": "v2", "storage": True})
    new["status"] = old["status"]
    CRDStrategy().prepare_for_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert old["status"]["storedVersions"] == ["v1"]


def test_the_name_must_be_plural_and_group() -> None:
    """Every other name is refused with upstream's text."""
    obj = created()
    obj["metadata"]["name"] = "other.example.com"
    assert [str(problem) for problem in CRDStrategy().validate(obj)] == [
        'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'
    ]


def test_built_in_resources_cannot_be_defined_again() -> None:
    """A definition of what every cluster serves is refused."""
    strategy = CRDStrategy(builtin={("example.com", "widgets")})
    (problem,) = strategy.validate(created())
    assert str(problem) == "spec.names.plural: Forbidden: widgets.example.com is a built-in resource"
    assert CRDStrategy().validate(created()) == []


def test_status_updates_check_the_stored_versions_alone() -> None:
    """Through /status the stored versions may shrink, but not to less than the storage version."""
    old = created()
    new = {**old, "status": {**old["status"], "storedVersions": []}}
    (problem,) = CRDStrategy().validate_update(new, old)
    assert problem.field == "status.storedVersions"
    assert CRDStrategy().validate_update({**old}, old) == []


def test_deletion_waits_for_the_objects() -> None:
    """A deleted definition gets the cleanup finalizer and the condition Terminating, and keeps the finalizers of others."""
    obj = created()
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    strategy = CRDStrategy(clock=lambda: 0.0)
    assert strategy.prepare_for_delete(obj)
    assert obj["metadata"]["finalizers"] == ["example.com/hold", CLEANUP_FINALIZER]
    (condition,) = obj["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Terminating", "True", "InstanceDeletionPending")
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert strategy.has_pending_finalizers(obj)
