"""Fan-outs that run on a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from kcp_py.storage.contract import Event, Put
from kcp_py.storage.keys import prefix_in_cluster
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import Fanout, ObjectEvent, Route, Watcher

PREFIX = "/registry/core/configmaps/"


@asynccontextmanager
async def running_fanout(storage: MemoryStorage, **bounds: int) -> AsyncIterator[Fanout]:
    fanout = Fanout(storage, "/registry", **bounds)
    async with running(fanout):
        yield fanout


@asynccontextmanager
async def running(fanout: Fanout) -> AsyncIterator[None]:
    started = asyncio.Event()
    task = asyncio.create_task(fanout.run(started=started))
    await started.wait()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def taken(watcher: Watcher, count: int) -> list[ObjectEvent]:
    events: list[ObjectEvent] = []
    while len(events) < count:
        await watcher.wait()
        events.extend(await watcher.take())
    return events


def name_of(event: ObjectEvent) -> str:
    return f"{event.route.cluster}/{event.route.namespace}/{event.route.name}"


async def put(storage: MemoryStorage, cluster: str, name: str, value: bytes = b"x") -> int:
    return await storage.transact([], [Put(f"{PREFIX}{cluster}/default/{name}", value)])


class Made:
    """Puts the event of an object `made` behind each of another resource."""

    def __init__(self, source: str, target: str, is_wanted: Callable[[], bool] = lambda: True) -> None:
        self._source = source
        self._target = target
        self._is_wanted = is_wanted

    def concerns(self, event: ObjectEvent) -> bool:
        return event.route.prefix == self._source and self._is_wanted()

    def sources_of(self, cluster: str) -> Sequence[str] | None:
        return [prefix_in_cluster(self._source, cluster)] if cluster else None

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        assert {id(event) for event in stored} <= {id(event) for event in events}, "nothing else has changed them"
        found = list(events)
        for event in filter(self.concerns, events):
            route = Route(self._target, event.route.cluster, "", "made")
            found.append(ObjectEvent(route, Event(route.key, event.value, event.mod_revision, event.create_revision, None)))
        return found
