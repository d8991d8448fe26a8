"""The controller of CustomResourceDefinitions."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.controllers import start_controllers
from kcp_py.logicalcluster import Name
from kcp_py.schema.crd.names_conditions import is_condition_true
from kcp_py.storage.contract import Put
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CRDS, ROOT, WIDGETS, Registry, make_crd, open_registry, widget

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
OTHER = Name("team-b")


async def test_a_definition_is_established_and_served(registry: Registry) -> None:
    """A new CRD gets its names and conditions, and its resource is served in its cluster alone."""
    await registry.client.create(TEAM, CRDS, make_crd(shortNames=["wd"]))
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
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, CRDS, make_crd("gadgets", singular="gadget", listKind="GadgetList"))
    await registry.until_condition(TEAM, "gadgets.example.com", "NamesAccepted", "False", "KindConflict")
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    crd = await registry.until_condition(TEAM, "gadgets.example.com", "Established")
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"


async def test_names_of_other_clusters_do_not_conflict(registry: Registry) -> None:
    """What one cluster calls its resources is nothing to another."""
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.client.create(OTHER, CRDS, make_crd("gadgets", singular="gadget"))
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.until_condition(OTHER, "gadgets.example.com", "Established")


async def test_deletion_takes_the_objects_along(registry: Registry) -> None:
    """A CRD goes after its objects, in its own cluster only, and starts empty when it comes again."""
    for cluster in (TEAM, OTHER):
        await registry.client.create(cluster, CRDS, make_crd())
        await registry.until_condition(cluster, "widgets.example.com", "Established")
        for name in ("one", "two"):
            await registry.client.create(cluster, WIDGETS, widget(name))
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_gone(TEAM, CRDS, "", "widgets.example.com")
    assert not [key for key in await registry.keys("team-a") if "widgets" in key]
    assert len((await registry.client.list(OTHER, WIDGETS)).items) == 2
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    assert (await registry.client.list(TEAM, WIDGETS)).items == []


async def test_deletion_waits_for_finalizers(registry: Registry) -> None:
    """A terminating CRD is served while objects wait for finalizers, takes no new ones, and goes with the last."""
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, WIDGETS, widget("held", finalizers=["example.com/hold"]))
    await registry.client.create(TEAM, WIDGETS, widget("free"))
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_condition(TEAM, "widgets.example.com", "Terminating", reason="InstanceDeletionInProgress")
    with pytest.raises(StatusError) as caught:
        await registry.client.create(TEAM, WIDGETS, widget("late"))
    assert caught.value.code == 403
    assert "create not allowed while custom resource definition is terminating" in caught.value.message
    (held,) = (await registry.client.list(TEAM, WIDGETS)).items
    assert held["metadata"]["deletionTimestamp"]
    del held["metadata"]["finalizers"]
    await registry.client.update(TEAM, WIDGETS, held)
    await registry.until_gone(TEAM, CRDS, "", "widgets.example.com")


async def test_the_cleanup_finalizer_cannot_be_taken_away(registry: Registry) -> None:
    """An update that drops the finalizer of a terminating CRD does not orphan its objects."""
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, WIDGETS, widget("held", finalizers=["example.com/hold"]))
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    crd = await registry.until_condition(TEAM, "widgets.example.com", "Terminating", reason="InstanceDeletionInProgress")
    del crd["metadata"]["finalizers"]
    updated = await registry.client.update(TEAM, CRDS, crd)
    assert updated["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]


async def test_a_restart_goes_on_where_the_last_run_stopped() -> None:
    """CRDs that were created or deleted while no controller ran are found at the next start."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, CRDS, make_crd())
        await registry.client.create(OTHER, CRDS, make_crd())
        await registry.client.delete(OTHER, CRDS, "", "widgets.example.com")
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap)
        await registry.until_condition(TEAM, "widgets.example.com", "Established")
        await registry.until_gone(OTHER, CRDS, "", "widgets.example.com")


async def test_all_of_a_group_are_looked_at_when_a_name_is_free(registry: Registry) -> None:
    """A definition that leaves, or gives a name up, lets in another that waited for it, and only one where several did."""
    await registry.client.create(TEAM, CRDS, make_crd(shortNames=["w", "x"]))
    first = await registry.until_condition(TEAM, "widgets.example.com", "Established")
    for plural, short in (("gadgets", "w"), ("gizmos", "x"), ("doodads", "x")):
        kind = plural.removesuffix("s").capitalize()
        names: dict[str, Any] = {"kind": kind, "listKind": f"{kind}List", "singular": kind.lower(), "shortNames": [short]}
        await registry.client.create(TEAM, CRDS, make_crd(plural, **names))
        await registry.until_condition(TEAM, f"{plural}.example.com", "NamesAccepted", "False", "ShortNamesConflict")
    first["spec"]["names"]["shortNames"] = ["x"]
    await registry.client.update(TEAM, CRDS, first)
    await registry.until_condition(TEAM, "gadgets.example.com", "Established")
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_gone(TEAM, CRDS, "", "widgets.example.com")
    accepted: list[str] = []

    async def has_accepted() -> bool:
        crds = [await registry.client.get(TEAM, CRDS, "", f"{plural}.example.com") for plural in ("gizmos", "doodads")]
        accepted[:] = [crd["metadata"]["name"] for crd in crds if is_condition_true(crd, "Established")]
        return bool(accepted)

    await registry.until(has_accepted)
    (other,) = {"gizmos.example.com", "doodads.example.com"} - set(accepted)
    await registry.until_condition(TEAM, other, "NamesAccepted", "False", "ShortNamesConflict")


async def test_the_generation_that_was_looked_at_is_told(registry: Registry) -> None:
    """In the status and in each condition, after a change too."""
    await registry.client.create(TEAM, CRDS, make_crd())
    crd = await registry.until_condition(TEAM, "widgets.example.com", "Established")
    assert crd["status"]["observedGeneration"] == 1
    assert {condition["observedGeneration"] for condition in crd["status"]["conditions"]} == {1}
    crd["spec"]["names"]["shortNames"] = ["wd"]
    await registry.client.update(TEAM, CRDS, crd)

    async def is_observed() -> bool:
        crd.update(await registry.client.get(TEAM, CRDS, "", "widgets.example.com"))
        return bool(crd["status"]["observedGeneration"] == 2)

    await registry.until(is_observed)
    assert {one["type"]: one["observedGeneration"] for one in crd["status"]["conditions"]} == {"NamesAccepted": 2, "Established": 2}


async def test_protected_groups_are_told_whether_they_conform(registry: Registry) -> None:
    """The condition follows the annotation."""
    crd = make_crd()
    crd["metadata"] = {"name": "widgets.x.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a trial"}}
    crd["spec"]["group"] = "x.k8s.io"
    await registry.client.create(TEAM, CRDS, crd)
    kind = "KubernetesAPIApprovalPolicyConformant"
    crd = await registry.until_condition(TEAM, "widgets.x.k8s.io", kind, "False", "UnapprovedAnnotation")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    await registry.client.update(TEAM, CRDS, crd)
    await registry.until_condition(TEAM, "widgets.x.k8s.io", kind, "True", "ApprovedAnnotation")


async def test_a_definition_of_another_server_is_checked_for_structure() -> None:
    """A stored CRD with a schema that is not structural has the condition, and loses it once the schema is corrected."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.establish(TEAM)
        (key,) = [key for key in await registry.keys("team-a") if "customresourcedefinitions" in key]
        item = await storage.get(key)
        assert item is not None
        crd = orjson.loads(item.value)
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"properties": {"a": {"type": "string"}}}
        await storage.transact((), (Put(key, orjson.dumps(crd)),))
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client, registry.tap)
        crd = await registry.until_condition(TEAM, "widgets.example.com", "NonStructuralSchema", "True", "Violations")
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
        await registry.client.update(TEAM, CRDS, crd)

        async def is_mended() -> bool:
            now = await registry.client.get(TEAM, CRDS, "", "widgets.example.com")
            return all(one["type"] != "NonStructuralSchema" for one in now["status"]["conditions"])

        await registry.until(is_mended)


async def _terminating(registry: Registry, name: str) -> list[tuple[str, str]]:
    """Delete a definition; the status and reason of Terminating, from then on until it is gone."""
    seen: list[tuple[str, str]] = []
    listed = await registry.client.list(TEAM, CRDS)
    await registry.client.delete(TEAM, CRDS, "", name)
    events = registry.client.watch(TEAM, CRDS, resource_version=listed.resource_version)
    async with asyncio.timeout(60):
        async for event in events:
            if event.obj["metadata"]["name"] == name:
                states = [(one["status"], one["reason"]) for one in event.obj["status"]["conditions"] if one["type"] == "Terminating"]
                seen += [state for state in states if state not in seen]
                if event.type == "DELETED":
                    break
    await events.aclose()
    return seen


async def test_termination_is_told_to_its_end(registry: Registry) -> None:
    """Watchers read that the instances are gone, or that there were none."""
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, CRDS, make_crd("gadgets", singular="gadget"))
    await registry.until_condition(TEAM, "gadgets.example.com", "NamesAccepted", "False")
    await registry.client.create(TEAM, WIDGETS, widget("one"))
    assert await _terminating(registry, "gadgets.example.com") == [("True", "InstanceDeletionPending"), ("False", "NeverEstablished")]
    assert await _terminating(registry, "widgets.example.com") == [
        ("True", "InstanceDeletionPending"),
        ("False", "InstanceDeletionCompleted"),
    ]


async def test_a_malformed_definition_takes_nothing_from_others(registry: Registry) -> None:
    """A CRD that another server has stored: others of its group get their names and are served, and it can be corrected or deleted."""
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await registry.client.create(TEAM, CRDS, make_crd("gizmos", kind="Gizmo"))
    await registry.until_condition(TEAM, "gizmos.example.com", "Established")
    broken = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "a"}}, "conversionReviewVersions": ["v1"]}}
    (key,) = [key for key in await registry.keys("team-a") if key.endswith("/widgets.example.com")]
    await registry.rewrite(key, lambda crd: crd["spec"].update(conversion=broken))
    await registry.client.create(TEAM, CRDS, make_crd("gadgets", kind="Gadget", shortNames=["g"]))
    await registry.until_condition(TEAM, "gadgets.example.com", "Established")
    served = (await registry.tables.get(TEAM)).served.values()
    assert [one.resource.resource for one in served] == ["gadgets", "gizmos"]
    await registry.client.create(TEAM, CRDS, make_crd("others", kind="Widget"))
    await registry.until_condition(TEAM, "others.example.com", "NamesAccepted", "False", "ListKindConflict")
    crd = await registry.client.get(TEAM, CRDS, "", "widgets.example.com")
    crd["spec"]["conversion"] = {"strategy": "None"}
    await registry.client.update(TEAM, CRDS, crd)
    await registry.client.create(TEAM, WIDGETS, widget("one"))
    await registry.rewrite(key, lambda crd: crd["spec"].update(conversion=broken))
    await registry.client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_gone(TEAM, CRDS, "", "widgets.example.com")
    assert not [key for key in await registry.keys("team-a") if "widgets" in key]
    await registry.until_condition(TEAM, "others.example.com", "Established")


async def test_a_definition_without_a_specification_can_be_deleted(registry: Registry) -> None:
    """Damage in the store does not prevent the deletion of a CRD or its objects."""
    client = registry.client
    await registry.client.create(TEAM, CRDS, make_crd())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    await client.create(TEAM, WIDGETS, widget("one"))
    await registry.rewrite(f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/team-a/widgets.example.com", lambda crd: crd.pop("spec"))
    await client.delete(TEAM, CRDS, "", "widgets.example.com")
    await registry.until_gone(TEAM, CRDS, "", "widgets.example.com")
    assert not [key for key in await registry.keys("team-a") if "widgets" in key]
