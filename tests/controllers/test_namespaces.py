"""The controller of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controllers import start_controllers
from kcp_py.controllers.content import Content
from kcp_py.controllers.namespaces import conditions_of
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    WIDGETS,
    Registry,
    config_map,
    definition,
    namespace,
    open_registry,
    widget,
)

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
PODS = GroupVersionResource("", "v1", "pods")


async def test_deletion_takes_the_content_along(registry: Registry) -> None:
    """A namespace goes after everything in it, built-in or custom; other namespaces keep theirs."""
    client = registry.client
    await client.create(TEAM, DEFINITIONS, definition())
    await registry.until_condition(TEAM, "widgets.example.com", "Established")
    for name in ("shop", "shop-2"):
        await client.create(TEAM, NAMESPACES, namespace(name))
        await client.create(TEAM, CONFIG_MAPS, config_map("one", name))
        await client.create(TEAM, WIDGETS, widget("one", name))
    await client.delete(TEAM, NAMESPACES, "", "shop")
    await registry.until_gone(TEAM, NAMESPACES, "", "shop")
    assert [key for key in await registry.keys("team-a") if "/shop/" in key] == []
    assert len([key for key in await registry.keys("team-a") if "/shop-2/" in key]) == 2


async def test_deletion_waits_for_finalizers(registry: Registry) -> None:
    """A terminating namespace stays while objects wait for finalizers, says so, and takes nothing new."""
    client = registry.client
    await client.create(TEAM, NAMESPACES, namespace("shop"))
    await client.create(TEAM, CONFIG_MAPS, config_map("held", "shop", finalizers=["example.com/hold"]))
    await client.delete(TEAM, NAMESPACES, "", "shop")

    async def reported() -> bool:
        return bool((await client.get(TEAM, NAMESPACES, "", "shop"))["status"].get("conditions"))

    await registry.until(reported)
    found = await client.get(TEAM, NAMESPACES, "", "shop")
    assert found["status"]["phase"] == "Terminating"
    (condition,) = [one for one in found["status"]["conditions"] if one["status"] == "True" and "Finalizers" in one["type"]]
    assert condition["message"] == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    with pytest.raises(StatusError) as caught:
        await client.create(TEAM, CONFIG_MAPS, config_map("late", "shop"))
    assert caught.value.code == 403
    held = await client.get(TEAM, CONFIG_MAPS, "shop", "held")
    del held["metadata"]["finalizers"]
    await client.update(TEAM, CONFIG_MAPS, held)
    await registry.until_gone(TEAM, NAMESPACES, "", "shop")


async def test_conditions_follow_the_content(registry: Registry) -> None:
    """What remains is told by resource and by finalizer, again as it goes, and in the end that nothing does."""
    client = registry.client
    await client.create(TEAM, NAMESPACES, {**namespace("shop"), "metadata": {"name": "shop", "finalizers": ["example.com/last"]}})
    await client.create(TEAM, CONFIG_MAPS, config_map("one", "shop", finalizers=["example.com/hold"]))
    await client.create(TEAM, CONFIG_MAPS, config_map("two", "shop", finalizers=["example.com/hold", "example.com/other"]))
    await client.delete(TEAM, NAMESPACES, "", "shop")
    found = await until_said(registry, "NamespaceContentRemaining", "Some resources are remaining: configmaps. has 2 resource instances")
    assert [(one["type"], one["status"], one["reason"], one["message"]) for one in found] == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", "Some resources are remaining: configmaps. has 2 resource instances"),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            (
                "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances, "
                "example.com/other in 1 resource instances"
            ),
        ),
    ]
    for name, left in (("two", "Some resources are remaining: configmaps. has 1 resource instances"), ("one", "")):
        held = await client.get(TEAM, CONFIG_MAPS, "shop", name)
        del held["metadata"]["finalizers"]
        await client.update(TEAM, CONFIG_MAPS, held)
        if left:
            await until_said(registry, "NamespaceContentRemaining", left)
    found = await until_said(registry, "NamespaceFinalizersRemaining", "All content successfully removed")
    assert {one["status"] for one in found} == {"False"}
    assert [one["reason"] for one in found][3:] == ["ContentRemoved", "ContentRemoved"]


async def until_said(registry: Registry, condition: str, message: str) -> list[dict[str, Any]]:
    """Wait until a condition of the namespace has a message, and return all conditions."""
    found: list[dict[str, Any]] = []

    async def said() -> bool:
        found[:] = (await registry.client.get(TEAM, NAMESPACES, "", "shop"))["status"].get("conditions", ())
        return any(one["type"] == condition and one["message"] == message for one in found)

    await registry.until(said)
    return found


def test_failures_are_told() -> None:
    """What could not be deleted is a condition of its own, in the order of the messages."""
    failures = [StatusError(500, "InternalError", text) for text in ("b failed", "a failed")]
    (condition,) = [one for one in conditions_of(Content({}, {}, failures)) if one["status"] == "True"]
    assert condition == {
        "type": "NamespaceDeletionContentFailure",
        "status": "True",
        "reason": "ContentDeletionFailed",
        "message": "Failed to delete all resource types, 2 remaining: a failed, b failed",
    }


async def test_pods_go_first(registry: Registry) -> None:
    """While a pod waits for its finalizers, nothing else in the namespace is deleted."""
    client = registry.client
    crd = definition("pods", "", kind="Pod")
    crd["metadata"]["name"] = "pods.core"
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    await client.create(TEAM, DEFINITIONS, crd)
    await registry.until_condition(TEAM, "pods.core", "Established")
    await client.create(TEAM, NAMESPACES, namespace("shop"))
    await client.create(TEAM, CONFIG_MAPS, config_map("one", "shop"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": "shop", "finalizers": ["example.com/hold"]}}
    await client.create(TEAM, PODS, pod)
    await client.delete(TEAM, NAMESPACES, "", "shop")
    await until_said(registry, "NamespaceContentRemaining", "Some resources are remaining: pods. has 1 resource instances")
    assert "deletionTimestamp" not in (await client.get(TEAM, CONFIG_MAPS, "shop", "one"))["metadata"]
    held = await client.get(TEAM, PODS, "shop", "held")
    del held["metadata"]["finalizers"]
    await client.update(TEAM, PODS, held)
    await registry.until_gone(TEAM, NAMESPACES, "", "shop")


async def test_a_restart_goes_on_with_the_deletion() -> None:
    """A namespace that was being deleted when the server stopped is emptied by the next one."""
    storage = MemoryStorage()
    async with open_registry(storage) as registry:
        await registry.client.create(TEAM, NAMESPACES, namespace("shop"))
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one", "shop"))
        await registry.client.delete(TEAM, NAMESPACES, "", "shop")
    async with open_registry(storage) as registry:
        start_controllers(registry.supervisor, registry.client)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")
        assert [key for key in await registry.keys("team-a") if "/shop" in key] == []
