"""What an update changes through the object itself and through each of its subresources."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.ownership import ConflictsError, Manager, Owned
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.registry.resource import ServedResource, view_of
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import APPROVAL, FINALIZE, Subresource, scale_entry, status_entry, table_of

SCALE = scale_entry(ScalePaths(("spec", "n"), ("status", "n"), ()))
(PLAIN,) = (resource for resource in builtin_resources("/registry") if str(resource.group_resource) == "configmaps")


class Noting(Strategy):
    """Writes the name of the method that prepared an update into the object."""

    status_resets = frozenset({"labels"})

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        obj["prepared"] = "update"

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        obj["prepared"] = "status"

    def prepare_for_finalize(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        obj["prepared"] = "finalize"

    def prepare_for_approval(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        obj["prepared"] = "approval"


def resource_with(*entries: Subresource, strategy: Strategy | None = None) -> ServedResource:
    return replace(PLAIN, strategy=strategy or Noting(), subresources=table_of(*entries))


def obj(mark: str) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    more = {"labels": {"mark": mark}, "annotations": {"mark": mark}}
    return {"metadata": {**metadata, **more}, "spec": {"mark": mark}, "status": {"mark": mark}}


STATUS, CUSTOM = status_entry(typed=True), status_entry(typed=False)


@pytest.mark.parametrize(
    ("entries", "subresource", "changed", "prepared"),
    [
        pytest.param((STATUS,), "", {"labels", "annotations", "spec"}, "update", id="object with a status"),
        pytest.param((), "", {"labels", "annotations", "spec", "status"}, "update", id="object without subresources"),
        pytest.param((STATUS,), "status", {"annotations", "status"}, "status", id="status of a typed kind"),
        pytest.param((CUSTOM,), "status", {"status"}, "status", id="status of a custom resource"),
        pytest.param((APPROVAL, STATUS), "approval", {"annotations", "status"}, "approval", id="approval"),
        pytest.param((FINALIZE, STATUS), "finalize", {"labels", "annotations", "spec"}, "finalize", id="finalize"),
        pytest.param((STATUS, SCALE), "scale", {"labels", "annotations", "spec"}, "update", id="scale"),
    ],
)
def test_an_update_sets_what_its_view_allows(entries: tuple[Subresource, ...], subresource: str, changed: set[str], prepared: str) -> None:
    """Everything else is that of the stored object, which stays as it is; the kind prepares the update by the rule of the view."""
    resource = resource_with(*entries)
    old = obj("old")
    before = deepcopy(old)
    found = view_of(resource, subresource).prepared(obj("new"), old, resource)
    parts = {**found["metadata"], **found}
    assert {name for name in ("labels", "annotations", "spec", "status") if parts[name] == {"mark": "new"}} == changed
    assert found["prepared"] == prepared
    assert found["metadata"]["generation"] == (2 if "spec" in changed else 1)
    assert old == before


@pytest.mark.parametrize(
    ("entries", "subresource", "resets"),
    [
        pytest.param((), "", {}, id="object without subresources"),
        pytest.param((STATUS,), "", {"f:status": {}}, id="object with a status"),
        pytest.param((STATUS, SCALE), "scale", {"f:status": {}}, id="scale"),
        pytest.param((STATUS,), "status", {"f:metadata": {"f:labels": {}}, "f:spec": {}}, id="status of a typed kind"),
        pytest.param((CUSTOM,), "status", {"f:metadata": {}, "f:spec": {}}, id="status of a custom resource"),
    ],
)
def test_an_update_owns_nothing_that_it_does_not_set(entries: tuple[Subresource, ...], subresource: str, resets: dict[str, Any]) -> None:
    """The fields that a view takes from the stored object have no owner through it."""
    resource = resource_with(*entries)
    assert view_of(resource, subresource).resets(resource, obj("old"), obj("new")) == resets


def test_the_status_of_an_ordinary_typed_kind_sets_metadata() -> None:
    """Where the kind resets none of it, labels and annotations have owners through the status."""
    resource = resource_with(STATUS, strategy=Strategy())
    assert view_of(resource, "status").resets(resource) == {"f:spec": {}}


def test_conflicts_in_a_scale() -> None:
    """Its clients are shown the fields and the version of a Scale; those of the object itself are shown as they are."""
    manager = Manager("m", "Update", "", "example.com/v1")
    error = ConflictsError({manager: Owned({"f:spec": {"f:deep": {"f:n": {}}}}, "example.com/v1", applied=False)})
    resource = resource_with(STATUS, SCALE)
    assert view_of(resource, "").shown_conflicts(error) is error
    ((shown, owned),) = view_of(resource, "scale").shown_conflicts(error).conflicts.items()
    assert shown == Manager("m", "Update", "", "autoscaling/v1")
    assert owned.fields == {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("given", "generation"),
    [
        pytest.param({"spec": {"mark": "old"}, "data": {"a": 1}}, 1, id="nothing"),
        pytest.param({"data": {"a": 1}, "spec": {"mark": "old"}}, 1, id="order"),
        pytest.param({"spec": {"mark": "old"}, "data": {"a": 1}, "status": {"mark": "new"}}, 1, id="status"),
        pytest.param({"spec": {"mark": "old"}, "data": {"a": True}}, 2, id="another type of an equal value"),
        pytest.param({"spec": {"mark": "new"}, "data": {"a": 1}}, 2, id="value"),
        pytest.param({"spec": {"mark": "old"}}, 2, id="field that goes"),
        pytest.param({"spec": {"mark": "old"}, "data": {"a": 1}, "more": None}, 2, id="field that comes"),
    ],
)
def test_the_generation_counts_changes_of_all_but_metadata_and_status(given: dict[str, Any], generation: int) -> None:
    """A change anywhere else raises it, whatever the order of fields."""
    resource = resource_with(STATUS, strategy=Strategy())
    old = obj("old") | {"data": {"a": 1}}
    found = view_of(resource, "").prepared({"metadata": obj("old")["metadata"], **given}, old, resource)
    assert found["metadata"]["generation"] == generation
