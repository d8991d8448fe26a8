"""Events, few enough."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from kcp_py.apimachinery import errors
from kcp_py.client.contract import Client
from kcp_py.library.reconciling.events import EVENTS, EventWriter
from kcp_py.logicalcluster import Name

pytestmark = pytest.mark.anyio

TEAM, OTHER = Name("team-a"), Name("team-b")
OBJECT = {"apiVersion": "v1", "kind": "Ship", "metadata": {"name": "argo", "uid": "1"}}


class Store:
    """Keeps events, or refuses them."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.refusal: Exception | None = None

    async def create(self, cluster: Name, resource: Any, obj: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert resource == EVENTS
        if self.refusal is not None:
            raise self.refusal
        self.events[cluster, obj["metadata"]["name"]] = obj
        return obj

    async def patch(self, cluster: Name, _: Any, namespace: str, name: str, *, document: Mapping[str, Any], **__: Any) -> Any:
        assert namespace == "default"
        if (cluster, name) not in self.events:
            raise errors.not_found(EVENTS.group_resource, name)
        self.events[cluster, name] |= document
        return self.events[cluster, name]

    @property
    def shown(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.events.values()]


class Bench:
    """A writer with a store and a clock."""

    def __init__(self) -> None:
        self.store, self.now = Store(), 1000.0
        self.writer = EventWriter(cast("Client", self.store), "fleet", clock=self.tick)

    def tick(self) -> float:
        self.now += 0.001
        return self.now

    async def tell(self, *messages: str, cluster: Name = TEAM) -> None:
        running = asyncio.create_task(self.writer.run())
        await asyncio.sleep(0)
        recorder = self.writer.recorder(cluster, OBJECT)
        for message in messages:
            recorder.warning("Leak", message)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,))


async def test_a_repeated_event_is_counted() -> None:
    """Per cluster; one that was deleted meanwhile is made anew. A stop writes those that wait."""
    bench = Bench()
    await bench.tell("bow", "stern", "bow")
    await bench.tell("bow", cluster=OTHER)
    assert bench.store.shown == [("bow", 2), ("stern", 1), ("bow", 1)]
    event = next(iter(bench.store.events.values()))
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Ship", "name": "argo", "uid": "1", "resourceVersion": ""}
    bench.store.events.clear()
    await bench.tell("bow")
    assert bench.store.shown == [("bow", 1)]


async def test_many_messages_of_one_reason_become_one_event() -> None:
    """From the tenth within ten minutes on; later they are told one by one again."""
    bench = Bench()
    await bench.tell(*(f"plank {number}" for number in range(12)))
    assert bench.store.shown[8:] == [("plank 8", 1), ("(combined from similar events): plank 11", 3)]
    bench.now += 3000
    await bench.tell("plank 50")
    assert bench.store.shown[-1] == ("plank 50", 1)


async def test_an_object_has_25_events_at_once() -> None:
    """And one more each five minutes; other clusters have theirs."""
    bench = Bench()
    await bench.tell(*["bow"] * 40)
    assert bench.store.shown == [("bow", 25)]
    bench.now += 301
    await bench.tell("bow", "bow")
    assert bench.store.shown == [("bow", 26)]
    await bench.tell("bow", cluster=OTHER)
    assert len(bench.store.shown) == 2


@pytest.mark.parametrize("refusal", [errors.forbidden(EVENTS.group_resource, "", "no"), RuntimeError("broken")])
async def test_events_that_cannot_be_written_stop_nothing(refusal: Exception) -> None:
    """The next ones are written."""
    bench = Bench()
    bench.store.refusal = refusal
    await bench.tell("bow")
    bench.store.refusal = None
    await bench.tell("stern")
    assert bench.store.shown == [("stern", 1)]


async def test_threads_may_tell_events() -> None:
    """Before the start and after the end nothing is kept."""
    bench = Bench()
    bench.writer.recorder(TEAM, OBJECT).normal("Early", "lost")
    running = asyncio.create_task(bench.writer.run())
    await asyncio.sleep(0)
    thread = threading.Thread(target=bench.writer.recorder(TEAM, OBJECT).normal, args=("Sailing", "x" * 2000))
    thread.start()
    while not bench.store.events:
        await asyncio.sleep(0)
    thread.join()
    assert bench.store.shown == [("x" * 1024, 1)]
    running.cancel()
    await asyncio.wait((running,))
    bench.writer.recorder(TEAM, OBJECT).normal("Late", "lost")
    assert len(bench.store.events) == 1
