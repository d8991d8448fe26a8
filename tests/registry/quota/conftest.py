"""A registry whose writes are charged: on a store that it has to itself, and on one that it shares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.quota import QuotaLedger
from kcp_py.storage.contract import Compare, Operation, Storage
from kcp_py.storage.keys import ResourceKeys
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.client.registry import ROOT, Registry, open_registry

TEAM = Name("team-a")
GUARD = f"{ROOT}/.kcp-py/quotas/{TEAM}"
"""The key that guards the quotas of the cluster on a store that is shared."""
QUOTAS = GroupVersionResource("", "v1", "resourcequotas")


class Charged:
    """A registry with a ledger."""

    def __init__(self, registry: Registry, ledger: QuotaLedger, *, shared: bool) -> None:
        self.registry, self.ledger, self.shared = registry, ledger, shared
        self.client, self.storage = registry.client, registry.storage

    async def quota(self, name: str = "q", namespace: str = "default", **spec: Any) -> dict[str, Any]:
        """Create a quota."""
        annotations = spec.pop("annotations", {})
        metadata = {"name": name, "namespace": namespace, "annotations": annotations}
        return await self.client.create(TEAM, QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})

    async def used(self, name: str = "q", namespace: str = "default") -> Mapping[str, str]:
        """The usage of a quota, which states the limits of its specification."""
        found = await self.client.get(TEAM, QUOTAS, namespace, name)
        assert found["status"]["hard"] == found["spec"]["hard"]
        used: Mapping[str, str] = found["status"]["used"]
        return used


class Servers(QuotaLedger):
    """Several servers on one store: each task writes through the ledger of the server that it has selected."""

    def __init__(self, charged: Charged, number: int) -> None:
        access = charged.registry.access
        self._selected: ContextVar[int] = ContextVar("server", default=0)
        self._ledgers = [charged.ledger, *(QuotaLedger(charged.storage, ROOT, access.commit, shared=True) for _ in range(number - 1))]
        access.ledger = self

    def select(self, server: int) -> None:
        """Let the present task write through a server."""
        self._selected.set(server % len(self._ledgers))

    def follows(self, cluster: Name, keys: ResourceKeys) -> bool:
        return self._ledgers[self._selected.get()].follows(cluster, keys)

    async def transact(
        self,
        cluster: Name,
        keys: ResourceKeys,
        compares: Sequence[Compare],
        operations: Sequence[Operation],
        *,
        enforced: bool = True,
        limited: bool = True,
    ) -> int:
        ledger = self._ledgers[self._selected.get()]
        return await ledger.transact(cluster, keys, compares, operations, enforced=enforced, limited=limited)


@asynccontextmanager
async def open_charged(storage: Storage, *, shared: bool) -> AsyncIterator[Charged]:
    """A registry that charges its writes, on a store; `shared` tells whether to expect other servers."""
    async with open_registry(storage) as registry:
        ledger = registry.access.ledger = QuotaLedger(storage, ROOT, registry.access.commit, shared=shared)
        await ledger.start()
        await registry.clusters.ensure(TEAM)
        yield Charged(registry, ledger, shared=shared)
        await ledger.aclose()


@pytest.fixture(params=["shared", "alone"])
async def charged(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Charged]:
    """See `Charged`."""
    shared = request.param == "shared"
    async with open_charged(MemoryStorage() if shared else SQLiteStorage(tmp_path / "store.db"), shared=shared) as one:
        yield one


@pytest.fixture
async def shared() -> AsyncIterator[Charged]:
    """On a store that is shared."""
    async with open_charged(MemoryStorage(), shared=True) as one:
        yield one
