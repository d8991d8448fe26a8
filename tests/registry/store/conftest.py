"""A registry on each embedded store, with a hook that lets something happen in the middle of a write; and a store alone, for reads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.options import CreateOptions, DeleteOptions, Preconditions, UpdateOptions
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Access, Current, create, delete, update
from kcp_py.registry.store.access import StoreResult
from kcp_py.registry.writerequest import FieldManager, Resolved, WriteOptions, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.user import LOOPBACK
from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    Compare,
    Delete,
    KeyValue,
    Operation,
    Put,
    RangeResult,
    Storage,
    WatchBatch,
)
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.client.registry import CONFIG_MAPS, ROOT, Registry, open_registry
from tests.registry.store.shelf import Shelf

TEAM = Name("team-a")
CLUSTER_KEY = f"{ROOT}/core.kcp.io/logicalclusters/{TEAM}/cluster"
CRD_KEY = f"{ROOT}/apiextensions.k8s.io/customresourcedefinitions/{TEAM}/widgets.example.com"
NAMESPACE_KEY = f"{ROOT}/core/namespaces/{TEAM}/game"

Step = Callable[[], Awaitable[object]]


class InterleavingStorage:
    """A store in which something else happens after a writer has made up its mind, and before its write is tried."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._steps: list[Step] = []
        self._touching = ""
        self.transactions = 0

    def before_write(self, *steps: Step, touching: str = "") -> None:
        """Run one step before each of the next writes (of keys that hold a text). The writes of a step itself count as none."""
        assert not self._steps, "the steps before were not used up"
        self._steps = list(steps)
        self._touching = touching

    @property
    def pending(self) -> int:
        """Steps that no write has come for."""
        return len(self._steps)

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        if self._steps and any(self._touching in operation.key for operation in operations):
            step, later = self._steps[0], self._steps[1:]
            self._steps = []
            await step()
            self._steps = later
        self.transactions += 1
        return await self._storage.transact(compares, operations)

    async def get(self, key: str) -> KeyValue | None:
        return await self._storage.get(key)

    async def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: int = 0,
        count: bool = False,
        keys_only: bool = False,
        max_bytes: int = LARGEST_PAGE_BYTES,
    ) -> RangeResult:
        return await self._storage.range(
            prefix, start=start, limit=limit, revision=revision, count=count, keys_only=keys_only, max_bytes=max_bytes
        )

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        return self._storage.watch(prefix, start_revision=start_revision)

    async def revision(self) -> int:
        return await self._storage.revision()

    async def compact(self, revision: int) -> None:
        await self._storage.compact(revision)

    async def check(self) -> None:
        await self._storage.check()

    async def __aenter__(self) -> Self:
        await self._storage.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._storage.__aexit__(*exc_info)


class World:
    """The verbs of the store in one cluster, without retries, and what tests change behind their back."""

    def __init__(self, registry: Registry, storage: InterleavingStorage) -> None:
        self.registry = registry
        self.storage = storage
        self.client = registry.client
        self.warnings: list[str] = []

    async def state(self, cluster: Name = TEAM) -> ClusterState:
        found = await self.registry.clusters.state(cluster)
        return found if found is not None else self.registry.clusters.uncreated(cluster)

    async def served(self, resource: GroupVersionResource = CONFIG_MAPS, cluster: Name = TEAM) -> Served:
        found = (await self.registry.tables.get(cluster)).find(*resource)
        assert found is not None
        return found

    async def create(self, obj: Mapping[str, Any], resource: GroupVersionResource = CONFIG_MAPS, **more: Any) -> StoreResult:
        cluster_state, served = (
            more.pop("cluster_state", None) or await self.state(),
            more.pop("served", None) or await self.served(resource),
        )
        new = orjson.loads(orjson.dumps(obj))
        namespace = new["metadata"].get("namespace", "")
        return await create(self.registry.access, self.request(cluster_state, served, CreateOptions, namespace, **more), new)

    async def update(
        self,
        name: str,
        change: Callable[[dict[str, Any]], object],
        resource: GroupVersionResource = CONFIG_MAPS,
        *,
        namespace: str = "default",
        lock: str = "",
        **more: Any,
    ) -> StoreResult:
        """Change an object as stored at the moment; with `lock`, only that resourceVersion of it."""
        cluster_state, served = await self.state(), more.pop("served", None) or await self.served(resource)

        async def transform(current: Current | None) -> dict[str, Any]:
            item = current.item if current is not None else None
            new: dict[str, Any] = {"apiVersion": served.resource.group_version, "kind": served.resource.kind, "metadata": {"name": name}}
            if item is not None:
                new = orjson.loads(item.value)
            # As in a patch: kinds that insist on a lock are given the version that was read.
            if lock or (item is not None and not served.resource.strategy.allow_unconditional_update):
                new["metadata"]["resourceVersion"] = lock or str(item.mod_revision if item else "")
            change(new)
            return new

        may_create = more.pop("may_create", False)
        request = self.request(cluster_state, served, UpdateOptions, namespace, name, **more)
        return await update(self.registry.access, request, transform, may_create=may_create)

    async def delete(
        self, name: str, resource: GroupVersionResource = CONFIG_MAPS, *, namespace: str = "default", **deletion: Any
    ) -> StoreResult:
        cluster_state, served = await self.state(), deletion.pop("served", None) or await self.served(resource)
        preconditions = Preconditions(deletion.pop("uid", ""), deletion.pop("resource_version", ""))
        options = DeleteOptions(
            preconditions=preconditions,
            propagation_policy=deletion.pop("propagation", None),
            grace_period_seconds=deletion.pop("grace", None),
            dry_run=deletion.pop("dry_run", False),
        )
        return await delete(self.registry.access, self.request(cluster_state, served, lambda **_: options, namespace, name, **deletion))

    def request(
        self,
        cluster_state: ClusterState,
        served: Served,
        options: Callable[..., WriteOptions],
        namespace: str,
        name: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
        size: int = 0,
        manager: FieldManager | None = None,
    ) -> WriteRequest:
        """A write of the server itself, with the warnings of this world."""
        context = RequestContext("", cluster_state.name, True, UNPARSED, LOOPBACK, self.warnings, {})
        return WriteRequest(context, Resolved(cluster_state, served, namespace, name, subresource), options(dry_run=dry_run), size, manager)

    async def stored(self, key: str) -> dict[str, Any] | None:
        """An object as it is stored."""
        item = await self.storage.get(key)
        return None if item is None else orjson.loads(item.value)

    async def rewrite(self, key: str, change: Callable[[dict[str, Any]], object]) -> None:
        """`Registry.rewrite`."""
        await self.registry.rewrite(key, change)

    async def establish(self, crd: Mapping[str, Any] | None = None) -> None:
        """`Registry.establish`."""
        await self.registry.establish(TEAM, crd)

    async def remake_cluster(self) -> None:
        """Take the cluster's object away, as its controller does at the end, and let a new one begin under its name."""
        before = await self.stored(CLUSTER_KEY)
        assert before is not None
        await self.storage.transact((), (Delete(CLUSTER_KEY),))
        before["metadata"]["uid"] = "reborn"
        await self.storage.transact((), (Put(CLUSTER_KEY, orjson.dumps(before)),))


@pytest.fixture(params=["memory", "sqlite"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with an object, on a store in memory and on one in a file."""
    inner: Storage = MemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "store.db")
    storage = InterleavingStorage(inner)
    async with open_registry(storage) as registry:
        await registry.clusters.ensure(TEAM)
        yield World(registry, storage)
        assert not storage.pending


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    """A store in a file with nothing around it."""
    async with SQLiteStorage(tmp_path / "kcp.db") as storage:
        yield Shelf(Access(storage))
