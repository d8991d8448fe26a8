"""A registry on a store that lets something happen in the middle of a read or of a write, and CRDs as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
import pytest

from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Compare, Delete, KeyValue, Operation, Put, RangeResult
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import ROOT, Registry, make_crd, open_registry

Step = Callable[[], Awaitable[object]]

A, B, C = Name("team-a"), Name("team-b"), Name("team-c")


class SteppedStorage(MemoryStorage):
    """A store whose answers can be on their way while something else happens. What a step itself reads and writes is not held up."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = 0
        """How many ranges were read."""
        self.read: list[str] = []
        """The keys that were read one by one."""
        self._after_read: Step | None = None
        self._after_commit: Step | None = None

    def after_read(self, step: Step) -> None:
        """Once the next read has seen the store, and before its answer is there."""
        self._after_read = step

    def after_commit(self, step: Step) -> None:
        """Once the next write is in the store, and before its writer knows."""
        self._after_commit = step

    async def get(self, key: str) -> KeyValue | None:
        if "/.kcp-py/" in key:
            return await super().get(key)
        step, self._after_read = self._after_read, None
        self.read.append(key)
        found = await super().get(key)
        if step is not None:
            await step()
        return found

    async def get_each(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return [await self.get(key) for key in keys]

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        step, self._after_read = self._after_read, None
        self.ranges += 1
        found = await super().range(prefix, **more)
        if step is not None:
            await step()
        return found

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        step, self._after_commit = self._after_commit, None
        revision = await super().transact(compares, operations)
        if step is not None:
            await step()
        return revision


class Elsewhere:
    """Another server on the same store: this one hears of its writes through the feed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def put(self, key: str, obj: Mapping[str, Any]) -> int:
        """Write, and wait until the feed has brought it."""
        return await self._told(Put(key, orjson.dumps(obj)))

    async def delete(self, key: str) -> int:
        return await self._told(Delete(key))

    async def define(self, cluster: Name, crd: Mapping[str, Any]) -> int:
        return await self.put(crd_key(cluster, crd["metadata"]["name"]), crd)

    async def _told(self, operation: Operation) -> int:
        revision = await self._registry.storage.transact((), (operation,))
        await self._registry.fanout.reached(revision)
        return revision


@pytest.fixture
def storage() -> SteppedStorage:
    return SteppedStorage()


@pytest.fixture
async def registry(storage: SteppedStorage) -> AsyncIterator[Registry]:
    async with open_registry(storage) as opened:
        yield opened


@pytest.fixture
def elsewhere(registry: Registry) -> Elsewhere:
    return Elsewhere(registry)


async def feed_begins_again(registry: Registry) -> None:
    """Report to the registry that events may have been missed."""
    started = asyncio.Event()
    again = asyncio.create_task(registry.fanout.run(started=started))
    await started.wait()
    again.cancel()
    with suppress(asyncio.CancelledError):
        await again


def crd_key(cluster: Name, name: str = "widgets.example.com") -> str:
    return f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/{cluster}/{name}"


def stored(
    crd: Mapping[str, Any] | None = None, *conditions: str, versions: Sequence[Mapping[str, Any]] = (), **metadata: Any
) -> dict[str, Any]:
    """A CRD as it is stored, by default one that was established.

    Args:
        crd: as a client creates it.
        conditions: those that are True.
        versions: instead of its own; their members beyond name, served, storage and schema.
        metadata: more of it.
    """
    obj: dict[str, Any] = orjson.loads(orjson.dumps(crd or make_crd()))
    obj["metadata"] |= {"uid": "1", "generation": 1, **metadata}
    if versions:
        (template,) = obj["spec"]["versions"]
        obj["spec"]["versions"] = [{**template, "storage": not at, **version} for at, version in enumerate(versions)]
    CRDStrategy().prepare_for_create(obj)
    obj["status"]["acceptedNames"] = obj["spec"]["names"]
    obj["status"]["conditions"] = [{"type": kind, "status": "True"} for kind in conditions or ("NamesAccepted", "Established")]
    return obj
