"""`Views`: the quotas and limits of clusters as they are stored, each with its usage counted.

Two internal keys belong to a cluster with limits or quotas (`/registry/.kcp-py/…/CLUSTER`)::

    usage     what the objects of a cluster with limits use; each write that changes it puts and compares this key
    quotas    the guard of stores that several servers share: each write of a quota or a limit by a client changes it

A usage is opened without numbers, together with a new guard. Nothing is written in the cluster before it is counted: writes of other
servers fail at the guard, and then find the usage and count it, too. The first count that is stored is right for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import orjson

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits, Used, limits_of
from kcp_py.registry.clusterstate import CLUSTER_OBJECT
from kcp_py.registry.quota.counting import count
from kcp_py.registry.quota.growth import CLUSTERS, count_used
from kcp_py.registry.quota.quotas import RESOURCE_QUOTAS, Quota
from kcp_py.registry.quota.writes import Usage, View
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Operation, Put, Storage, UnavailableError
from kcp_py.storage.keys import resource_keys

Commit = Callable[[Name, Iterable[str], Sequence[Compare], Sequence[Operation]], Awaitable[int]]
"""Carries out a transaction. Takes the cluster, the prefixes of the resources that are written, compares and operations."""

UNCOUNTED: Final = b"{}"
"""A usage that has to be counted."""
_VIEW_BYTES: Final = 1_500
_QUOTA_BYTES: Final = 3_000
_ATTEMPTS: Final = 64


class Views:
    """Reads and counts the quotas and limits of clusters. It keeps those of clusters that were written to, within the budget."""

    def __init__(
        self,
        storage: Storage,
        root: str,
        commit: Commit,
        *,
        shared: bool,
        quotas: bool = True,
        defaults: Limits = NO_LIMITS,
        budget: ClusterBudget | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            storage: the store.
            root: its prefix, such as `/registry`.
            commit: writes to it.
            shared: whether other servers write to the store.
            quotas: whether ResourceQuotas are charged.
            defaults: the limits of clusters that state none.
            budget: of the memory of all caches; one of its own without it.
        """
        self.storage: Final = storage
        self.root: Final = root
        self.commit: Final = commit
        self.shared: Final = shared
        self._defaults = defaults
        self.quota_keys: Final = resource_keys(root, *RESOURCE_QUOTAS, namespaced=True)
        # Where quotas are not charged, writes of clients change their sizes as those of other objects.
        self._charged_prefix = self.quota_keys.prefix if quotas else "\0"
        self.cluster_keys: Final = resource_keys(root, *CLUSTERS, namespaced=False)
        self.usage_folder: Final = f"{root}/.kcp-py/usage/"
        self._views: dict[Name, View] = {}
        self._kept = (ClusterBudget() if budget is None else budget).part("quotas", self._views.pop)
        self._loading: dict[Name, object] = {}
        """The latest load of a cluster, unless its view was replaced or dropped since it began."""
        self.cached: Final = self._views.get
        """The view of a cluster, if it is kept."""

    def keep(self, cluster: Name, view: View) -> None:
        """Keep the view of a cluster."""
        self._loading.pop(cluster, None)
        self._views[cluster] = view
        self._kept.hold(cluster, _VIEW_BYTES + _QUOTA_BYTES * len(view.quotas))

    def drop(self, cluster: Name) -> None:
        """Forget the view of a cluster. A load that is under way is not kept."""
        self._loading.pop(cluster, None)
        if self._views.pop(cluster, None) is not None:
            self._kept.release(cluster)

    def guard(self, cluster: Name) -> str:
        """The key that guards the quotas and limits of a cluster."""
        return f"{self.root}/.kcp-py/quotas/{cluster}"

    def usage(self, cluster: Name) -> str:
        """The key of the usage of a cluster."""
        return f"{self.usage_folder}{cluster}"

    def limits(self, cluster: Name, value: bytes | None) -> Limits:
        """The limits of a cluster by its LogicalCluster; None where that is not stored."""
        annotations = None if value is None else orjson.loads(value)["metadata"].get("annotations")
        return limits_of(cluster, annotations, self._defaults)

    async def load(self, cluster: Name) -> View:
        """Read the quotas and limits of a cluster. The view is kept unless a newer one is known, or none may be kept, when it is complete.

        Raises:
            StorageError: the store could not be read.
        """
        token = self._loading[cluster] = object()
        try:
            view = await self._read(cluster)
        finally:
            latest = self._loading.get(cluster) is token
            if latest:
                del self._loading[cluster]
        if latest:
            self.keep(cluster, view)
        return view

    async def _read(self, cluster: Name) -> View:
        # The guard first: a quota that comes between the reads changes it, so that a transaction on this view fails.
        guard = await self.storage.get(self.guard(cluster)) if self.shared else None
        items = (await self.storage.range(self.quota_keys.cluster_prefix(cluster))).items
        stated = await self.storage.get(self.cluster_keys.object_key(cluster, "", CLUSTER_OBJECT))
        usage = await self.storage.get(self.usage(cluster))
        return View(
            cluster,
            guard.mod_revision if guard is not None else 0,
            {item.key: Quota(item) for item in items},
            self.limits(cluster, stated.value if stated is not None else None),
            None if usage is None else Usage(usage.key, usage.mod_revision, read_used(usage.value)),
        )

    async def filled(self, cluster: Name) -> View:
        """The quotas and limits of a cluster, each with its usage.

        Raises:
            StorageError: the store could not be read or written.
        """
        for _ in range(_ATTEMPTS):
            view = self.cached(cluster) or await self.load(cluster)
            # The usage first: it counts the sizes of quotas.
            if view.usage is None and view.limits.counted:
                await self._open_usage(cluster, view)
            elif view.usage is not None and view.usage.used is None:
                await self._store_used(cluster, view, view.usage)
            elif (missing := next((quota for quota in view.quotas.values() if not quota.filled), None)) is not None:
                await self._store_count(cluster, view, missing)
            else:
                return view
        raise UnavailableError("the quotas change all the time")

    def with_usage(
        self,
        view: View,
        growth: Used | None,
        compares: Sequence[Compare],
        operations: Sequence[Operation],
        *,
        counted: bool = False,
    ) -> tuple[Sequence[Compare], Sequence[Operation], Used | None]:
        """A transaction with the usage of its cluster after it; None where that stays.

        Args:
            view: of the cluster.
            growth: see `View.used_after`.
            compares: its conditions.
            operations: all that it changes.
            counted: whether it stores the count of a quota.
        """
        after = view.used_after(growth, operations, self.quota_keys.prefix if counted else self._charged_prefix)
        if after is None or view.usage is None:
            return compares, operations, None
        key = view.usage.key
        return (*compares, Compare(key, mod_revision=view.usage.mod_revision)), (*operations, Put(key, encode_used(after))), after

    async def filled_operation(self, cluster: Name, operation: Operation) -> Operation:
        """The operation, with the usage of a quota that has none for its limits.

        Its clients then see one write. What changes between this count and the transaction is found by the count that follows.
        """
        if not isinstance(operation, Put) or not operation.key.startswith(self.quota_keys.prefix):
            return operation
        quota = Quota(KeyValue(operation.key, operation.value, 0, 0))
        return operation if quota.filled else Put(operation.key, quota.with_usage(await count(self.storage, self.root, cluster, quota)))

    async def recounted(self, cluster: Name, key: str) -> tuple[int, int]:
        """Count what a quota counts, until no other server has changed it meanwhile.

        Returns:
            The revisions of the quota before and after; zeros where it is gone.
        """
        for _ in range(_ATTEMPTS):
            await self.load(cluster)
            view = await self.filled(cluster)
            quota = view.quotas.get(key)
            if quota is None:
                return 0, 0
            if after := await self._store_count(cluster, view, quota):
                return quota.mod_revision, after
        raise UnavailableError("the quotas change all the time")

    async def used_anew(self, cluster: Name) -> None:
        """Count what a cluster with limits uses. That of a cluster without limits is given up.

        Raises:
            StorageError: the store could not be read or written.
        """
        for _ in range(_ATTEMPTS):
            await self.load(cluster)
            view = await self.filled(cluster)
            if view.usage is None:
                return
            done = await (self._store_used if view.limits.counted else self._close_usage)(cluster, view, view.usage)
            if done:
                return
        raise UnavailableError("the usage changes all the time")

    # Writes

    def _guards(self, cluster: Name, view: View) -> list[Compare]:
        return [Compare(self.guard(cluster), mod_revision=view.guard)] if self.shared else []

    async def _open_usage(self, cluster: Name, view: View) -> None:
        compares = [Compare(self.usage(cluster), mod_revision=0), *self._guards(cluster, view)]
        operations = [Put(self.usage(cluster), UNCOUNTED)]
        if self.shared:
            operations.append(Put(self.guard(cluster), b"1"))
        await self._try(cluster, compares, operations)

    async def _close_usage(self, cluster: Name, view: View, usage: Usage) -> bool:
        compares = [Compare(usage.key, mod_revision=usage.mod_revision), *self._guards(cluster, view)]
        operations: list[Operation] = [Delete(usage.key)]
        if self.shared:
            operations.append(Put(self.guard(cluster), b"1") if view.quotas else Delete(self.guard(cluster)))
        return await self._try(cluster, compares, operations)

    async def _store_used(self, cluster: Name, view: View, usage: Usage) -> bool:
        used = await count_used(self.storage, self.root, cluster)
        compares = [Compare(usage.key, mod_revision=usage.mod_revision), *self._guards(cluster, view)]
        return await self._try(cluster, compares, [] if used == usage.used else [Put(usage.key, encode_used(used))])

    async def _try(self, cluster: Name, compares: Sequence[Compare], operations: Sequence[Operation]) -> bool:
        """Carry out a write of internal keys; the view is read again after it. False after a conflict."""
        self.drop(cluster)
        try:
            await self.commit(cluster, (), compares, operations)
        except ConflictError:
            return False
        return True

    async def _store_count(self, cluster: Name, view: View, quota: Quota) -> int:
        """Count what a quota counts, and store it where it differs.

        Returns:
            The revision of the quota now; 0 where it has changed meanwhile.
        """
        counted = await count(self.storage, self.root, cluster, quota)
        operations: Sequence[Operation] = ()
        if counted != quota.used or not quota.filled:
            operations = (Put(quota.key, quota.with_usage(counted)),)
        guards = [Compare(quota.key, mod_revision=quota.mod_revision), *self._guards(cluster, view)]
        compares, operations, used = self.with_usage(view, None, guards, operations, counted=True)
        try:
            revision = await self.commit(cluster, (self.quota_keys.prefix,), compares, operations)
        except ConflictError:
            self.drop(cluster)
            return 0
        if operations:
            view = view.replaced(quota.charged(counted, revision)).with_used(used, revision)
        self.keep(cluster, view)
        return revision if operations else quota.mod_revision


def read_used(value: bytes) -> Used | None:
    """A stored usage; None where it has to be counted."""
    found: dict[str, Any] = orjson.loads(value)
    return Used(**found) if found else None


def encode_used(used: Used) -> bytes:
    """The stored form of a usage."""
    return orjson.dumps(used._asdict())
