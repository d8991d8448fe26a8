"""The controller of CustomResourceDefinitions."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.controllers import start_controllers
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import DEFINITIONS, WIDGETS, Registry, definition, open_registry, widget

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")


async def test_a_definition_is_established_and_served(registry: Registry) -> None:
    """A new CRD gets its names and conditions, and its resource is served in its cluster alone."""
    await registry.client.create(TEAM, DEFINITIONS, definition(shortNames=["wd"]))
    crd = await registry.until_condition(TEAM, "widgets.example.com", "Established")
    assert crd["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "shortNames": ["wd"],
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert crd["status"]["storedVersions"] == ["v1"]
    created = await registry.client.create(TEAM, WIDGETS, widget("one"))
    assert created["metadata"]["annotations"] == {"kcp.io/cluster": "team-a"}
    with pytest.raises(StatusError) as caught:
        await registry.client.get(OTHER, WIDGETS, "default", "one")
    assert caught.value.code == 404


async def test_a_conflicting_name_is_refused_until_it_is_free(registry: Registry) -> None:
    """The second CRD of a group with the same kind is not served, and is once the first has gone."""
    await registry.client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, DEFINITIONS, definition("gadgets", singular="gadget", listKind="GadgetList"))
    await registry.until_condition(TEAM, "gadgets.example.com", "NamesAccepted", "False", "KindConflict")
    await registry.client.delete(TEAM, DEFINITIONS, "", "widgets.example.com")
    crd = await registry.until_condition(TEAM, "gadgets.example.com", "Established")
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"


async def test_names_of_other_clusters_do_not_conflict(registry: Registry) -> None:
    """What one cluster calls its resources is nothing to another."""
    await registry.client.create(TEAM, DEFINITIONS, definition())
    await registry.client.create(OTHER, DEFINITIONS, definition("gadgets", singular="gadget"))
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.until_condition(OTHER, "gadgets.example.com", "Established")


async def test_deletion_takes_the_objects_along(registry: Registry) -> None:
    """A CRD goes after its objects, in its own cluster only, and starts empty when it comes again."""
    for cluster in (TEAM, OTHER):
        await registry.client.create(cluster, DEFINITIONS, definition())
        await registry.until_condition(cluster, "widgets.example.com", "Established")
        for name in ("one", "two"):
            await registry.client.create(cluster, WIDGETS, widget(name))
    await registry.client.delete(TEAM, DEFINITIONS, "", "widgets.example.com")
    await registry.until_gone(TEAM, DEFINITIONS, "", "widgets.example.com")
    assert not [key for key in await registry.keys("team-a") if "widgets" in key]
    assert len((await registry.client.list(OTHER, WIDGETS)).items) == 2
    await registry.client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    assert (await registry.client.list(TEAM, WIDGETS)).items == []


async def test_deletion_waits_for_finalizers(registry: Registry) -> None:
    """A terminating CRD is served while objects wait for finalizers, takes no new ones, and goes with the last."""
    await registry.client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, WIDGETS, widget("held", finalizers=["example.com/hold"]))
    await registry.client.create(TEAM, WIDGETS, widget("free"))
    await registry.client.delete(TEAM, DEFINITIONS, "", "widgets.example.com")
    await registry.until_condition(TEAM, "widgets.example.com", "Terminating", reason="InstanceDeletionInProgress")
    with pytest.raises(StatusError) as caught:
        await registry.client.create(TEAM, WIDGETS, widget("late"))
    assert caught.value.code == 403
    assert "create not allowed while custom resource definition is terminating" in caught.value.message
    (held,) = (await registry.client.list(TEAM, WIDGETS)).items
    assert held["metadata"]["deletionTimestamp"]
    del held["metadata"]["finalizers"]
    await registry.client.update(TEAM, WIDGETS, held)
    await registry.until_gone(TEAM, DEFINITIONS, "", "widgets.example.com")


async def test_the_cleanup_finalizer_cannot_be_taken_away(registry: Registry) -> None:
    """An update that drops the finalizer of a terminating CRD does not orphan its objects."""
    await registry.client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, WIDGETS, widget("held", finalizers=["example.com/hold"]))
    await registry.client.delete(TEAM, DEFINITIONS, "", "widgets.example.com")
    crd = await registry.until_condition(TEAM, "widgets.example.com", "Terminating", reason="InstanceDeletionInProgress")
    del crd["metadata"]["finalizers"]
    updated = await registry.client.update(TEAM, DEFINITIONS, crd)
    assert updated["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]


async def test_a_restart_goes_on_where_the_last_run_stopped() -> None:
    """CRDs that were created or deleted while no controller ran are found at the next start."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, DEFINITIONS, definition())
        await registry.client.create(OTHER, DEFINITIONS, definition())
        await registry.client.delete(OTHER, DEFINITIONS, "", "widgets.example.com")
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client)
        await registry.until_condition(TEAM, "widgets.example.com", "Established")
        await registry.until_gone(OTHER, DEFINITIONS, "", "widgets.example.com")
