"""Events are deleted some time after their last write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.controllers import ControllerSettings, start_controllers
from kcp_py.controllers.events import EVENTS, EventTTLController, last_write
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.loop import ReconcileLoop, changes_of
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import Registry, open_registry
from tests.controllers.planes import OTHER, TEAM, WAYS, open_plane
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

TTL = 3600.0
KEY = Key(TEAM, "", "")
SELECTION = ("event-ttl-controller",)


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "involvedObject": {"namespace": "default"}, **more}


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with open_registry(MemoryStorage()) as opened:
        yield opened


async def created(registry: Registry, cluster: Name, *names: str) -> float:
    """Create events, and return when the last one was created."""
    for name in names:
        made = await registry.client.create(cluster, EVENTS, event(name))
    return parse_time(made["metadata"]["creationTimestamp"])


async def names(registry: Registry, cluster: Name) -> set[str]:
    return {item["metadata"]["name"] for item in (await registry.client.list(cluster, EVENTS)).items}


@pytest.mark.parametrize("way", WAYS)
async def test_an_event_is_deleted_after_its_time(way: str, tmp_path: Path) -> None:
    """Those that exist when the controllers start, and those that are created later."""
    async with open_plane(way, tmp_path) as plane:
        client = plane.control_plane.client
        await client.create(TEAM, EVENTS, event("before"))
        settings = ControllerSettings(event_ttl=0.2)
        start_controllers(
            plane.supervisor, plane.client, plane.tap, SELECTION, clock=Clock(time=lambda: time.time() + TTL), settings=settings
        )

        async def no_events() -> bool:
            return not await plane.names(TEAM, EVENTS) | await plane.names(OTHER, EVENTS)

        await plane.until(no_events)
        await client.create(OTHER, EVENTS, event("after"))
        await plane.until(no_events)


async def test_controllers_that_begin_again_look_again(tmp_path: Path) -> None:
    """As in a process that loses the election while a cluster waits for its look, and wins the next one."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        await plane.control_plane.client.create(TEAM, EVENTS, event("one"))
        controller = EventTTLController(plane.client, ttl=TTL, clock=lambda: time.time() + 2 * TTL)
        loop = ReconcileLoop(plane.tap, controller, changes_of(plane.tap, controller))
        for _ in range(2):
            task = asyncio.create_task(loop.run())
            async with asyncio.timeout(60):
                while not loop.queue.delayed:
                    await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
        assert loop.queue.delayed == 0


async def test_a_younger_event_stays(registry: Registry) -> None:
    """The cluster is looked at again when the next event has its time."""
    now = await created(registry, TEAM, "one", "two")
    controller = EventTTLController(registry.client, ttl=TTL, clock=lambda: now)
    assert await controller.reconcile(KEY) == Later(pytest.approx(TTL, abs=60))  # type: ignore[arg-type]
    assert await names(registry, TEAM) == {"one", "two"}


async def test_one_cluster_is_looked_at(registry: Registry) -> None:
    """Its events go however many there are, more than one page. Events of other clusters stay."""
    await created(registry, OTHER, "one")
    now = await created(registry, TEAM, *(f"event-{number}" for number in range(250)))
    controller = EventTTLController(registry.client, ttl=TTL, clock=lambda: now + TTL)
    assert await controller.reconcile(KEY) == 0
    assert await names(registry, TEAM) == set()
    assert await names(registry, OTHER) == {"one"}


async def test_a_cluster_has_one_timer(registry: Registry) -> None:
    """However many events are written, and none without events."""
    (loop,) = start_controllers(registry.supervisor, registry.client, registry.tap, SELECTION)
    await until_idle()
    assert loop.queue.delayed == 0
    await created(registry, TEAM, *(f"event-{number}" for number in range(20)))
    await created(registry, OTHER, "one")
    async with asyncio.timeout(60):
        while loop.queue.delayed != 2:
            await asyncio.sleep(0)
    assert loop.queue.metrics.adds == 0


async def test_events_can_be_kept(registry: Registry) -> None:
    """With a time of 0 nothing runs."""
    settings = ControllerSettings(event_ttl=0)
    assert start_controllers(registry.supervisor, registry.client, registry.tap, SELECTION, settings=settings) == []


@pytest.mark.parametrize(
    ("managers", "expected"),
    [
        ([], "2026-01-01T00:00:00Z"),
        ([{"time": "2026-01-01T00:30:00Z"}, {"time": "2026-01-01T00:10:00Z"}], "2026-01-01T00:30:00Z"),
        ([{"manager": "m"}, {"time": "2025-01-01T00:00:00Z"}], "2026-01-01T00:00:00Z"),
    ],
    ids=["created", "changed", "without a time"],
)
def test_the_last_write_counts(managers: list[dict[str, str]], expected: str) -> None:
    """Of all managers, as an update of an event renews its lease in Kubernetes."""
    assert last_write({"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managers}) == parse_time(expected)
