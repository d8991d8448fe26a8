"""The controller of namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.controllers import ControllerSettings, start_controllers
from kcp_py.controllers.content import Content
from kcp_py.controllers.namespaces import NamespaceController, conditions_of, remaining_grace
from kcp_py.controllers.runtime.loop import ReconcileLoop, changes_of
from kcp_py.controllers.runtime.queue import Timer, WorkQueue
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from kcp_py.tenancy import LOGICAL_CLUSTER
from tests.client.registry import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    WIDGETS,
    Registry,
    config_map,
    make_crd,
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
    await client.create(TEAM, CRDS, make_crd())
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


class VirtualTime:
    """A clock, and timers that run when a test moves it."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.set_by = 0.0
        """Seconds by which the time of day was set, back or forward, which timers do not follow."""
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now + self.set_by

    def monotonic(self) -> float:
        return self.now

    def schedule(self, seconds: float, function: Callable[[], None]) -> Timer:
        entry = (self.now + seconds, function)
        self.timers.append(entry)
        return Cancelling(self.timers, entry)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [entry for entry in self.timers if entry[0] <= self.now]
        for entry in due:
            self.timers.remove(entry)
            entry[1]()


class Cancelling:
    def __init__(self, timers: list[tuple[float, Callable[[], None]]], entry: tuple[float, Callable[[], None]]) -> None:
        self._timers = timers
        self._entry = entry

    def cancel(self) -> None:
        if self._entry in self._timers:
            self._timers.remove(self._entry)


def run_namespaces(registry: Registry, time: VirtualTime, *, workers: int = 1) -> WorkQueue:
    """The controller of namespaces with a grace of five seconds of virtual time."""
    controller = NamespaceController(registry.client, registry.tap, clock=time.clock, grace=5, monotonic=time.monotonic)
    queue = WorkQueue(per_cluster=controller.per_cluster, schedule=time.schedule)
    loop = ReconcileLoop(registry.tap, controller, changes_of(registry.tap, controller), queue=queue, workers=workers)
    registry.supervisor.start("namespaces", loop.run)
    return queue


async def delete_at(registry: Registry, time: VirtualTime, *names: str) -> None:
    """Make namespaces with one object each, delete them, and set the virtual time to when that was."""
    for name in names:
        await registry.client.create(TEAM, NAMESPACES, namespace(name))
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one", name))
        await registry.client.delete(TEAM, NAMESPACES, "", name)
        deleted = await registry.client.get(TEAM, NAMESPACES, "", name)
        time.now = parse_time(deleted["metadata"]["deletionTimestamp"])


async def wait_for_time(queue: WorkQueue, keys: int) -> None:
    """Return when so many keys wait for their time, and none for a worker."""
    async with asyncio.timeout(60):
        while (len(queue), queue.delayed) != (0, keys):
            await asyncio.sleep(0)


async def test_content_stays_for_a_grace() -> None:
    """It is there for as long as the setting says, and gone behind that; one worker is enough for many that wait."""
    time = VirtualTime()
    names = ("one", "two", "three")
    async with open_registry(MemoryStorage()) as registry:
        await delete_at(registry, time, *names)
        queue = run_namespaces(registry, time)
        await wait_for_time(queue, len(names))
        time.advance(4.9)
        await wait_for_time(queue, len(names))
        for name in names:
            assert (await registry.client.get(TEAM, CONFIG_MAPS, name, "one"))["metadata"]["name"] == "one"
        time.advance(1.1)
        for name in names:
            await registry.until_gone(TEAM, NAMESPACES, "", name)


async def test_the_grace_does_not_begin_again() -> None:
    """A change during it, or a controller that is started within it, keeps to the time of the deletion."""
    time = VirtualTime()
    async with open_registry(MemoryStorage()) as registry:
        await delete_at(registry, time, "shop")
        time.advance(4)
        queue = run_namespaces(registry, time)
        await wait_for_time(queue, 1)
        found = await registry.client.get(TEAM, NAMESPACES, "", "shop")
        found["metadata"]["labels"] = {"changed": "yes"}
        await registry.client.update(TEAM, NAMESPACES, found)
        await wait_for_time(queue, 1)
        assert await registry.client.get(TEAM, CONFIG_MAPS, "shop", "one")
        time.advance(2)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")


@pytest.mark.parametrize("seconds", [-86400.0, 86400.0], ids=["back", "forward"])
async def test_a_clock_that_is_set_does_not_change_the_grace(seconds: float) -> None:
    """Set by a day within the grace, the content stays for the rest of it, and goes at its end."""
    time = VirtualTime()
    async with open_registry(MemoryStorage()) as registry:
        await delete_at(registry, time, "shop")
        queue = run_namespaces(registry, time)
        await wait_for_time(queue, 1)
        time.set_by = seconds
        looks = queue.metrics.adds
        found = await registry.client.get(TEAM, NAMESPACES, "", "shop")
        found["metadata"]["labels"] = {"changed": "yes"}
        await registry.client.update(TEAM, NAMESPACES, found)
        async with asyncio.timeout(60):
            while queue.metrics.adds == looks:
                await asyncio.sleep(0)
        await wait_for_time(queue, 1)
        time.advance(4.9)
        await wait_for_time(queue, 1)
        assert await registry.client.get(TEAM, CONFIG_MAPS, "shop", "one")
        time.advance(1.2)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")


async def test_a_start_with_a_clock_behind_waits_for_one_grace() -> None:
    """A server that starts a day before the deletion, by its clock, deletes the content after the usual time."""
    time = VirtualTime()
    async with open_registry(MemoryStorage()) as registry:
        await delete_at(registry, time, "shop")
        time.set_by = -86400.0
        queue = run_namespaces(registry, time)
        await wait_for_time(queue, 1)
        time.advance(6.1)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")


async def test_a_cluster_that_is_deleted_has_no_grace() -> None:
    """Its namespaces go with it, those that were being deleted too: no client can see them any more."""
    time = VirtualTime()
    async with open_registry(MemoryStorage()) as registry:
        settings = ControllerSettings(namespace_grace=3600)
        start_controllers(registry.supervisor, registry.client, registry.tap, clock=Clock(time=time.clock), settings=settings)
        await delete_at(registry, time, "shop")
        await registry.client.create(TEAM, NAMESPACES, namespace("other"))
        await registry.client.create(TEAM, CONFIG_MAPS, config_map("one", "other"))
        await registry.client.delete(TEAM, LOGICAL_CLUSTER, "", "cluster")
        await registry.until_gone(TEAM, LOGICAL_CLUSTER, "", "cluster")
        assert await registry.keys("team-a") == []


@pytest.mark.parametrize(
    ("deleted", "now", "grace", "expected"),
    [
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_000.0, 5, 6, id="at once, the fraction of the second being unknown"),
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_004.5, 5, 1.5, id="in the middle"),
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_006.0, 5, 0, id="at the end"),
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_999.0, 5, -993, id="long after, as behind a restart"),
        pytest.param("2023-11-14T22:13:20Z", 1_700_000_000.0, 0, 0, id="none"),
        pytest.param("2023-11-15T22:13:20Z", 1_700_000_000.0, 5, 6, id="a day before the deletion, as with a clock that was set back"),
        pytest.param("yesterday", 1_700_000_000.0, 5, 0, id="no time"),
    ],
)
def test_what_is_left_of_the_grace(deleted: str, now: float, grace: float, expected: float) -> None:
    """It counts from the deletion, in whole seconds upwards."""
    assert remaining_grace(deleted, now, grace) == expected


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
    crd = make_crd("pods", "", kind="Pod")
    crd["metadata"]["name"] = "pods.core"
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    await client.create(TEAM, CRDS, crd)
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
        start_controllers(registry.supervisor, registry.client, registry.tap)
        await registry.until_gone(TEAM, NAMESPACES, "", "shop")
        assert [key for key in await registry.keys("team-a") if "/shop" in key] == []
