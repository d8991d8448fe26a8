"""`QuotaLedger`: charges the quotas of a cluster in the transaction of each write.

The usage of a quota is its `status.used`. A write that a quota counts stores its object and the new usage in one transaction, which
compares the revision of the quota. So no write passes that another one has not left room for, on this server or on another one. Writes
of one cluster that wait at the same time share a transaction: its quotas are written once for all of them.

A write has to know which quotas there are. Where this server alone writes to the store, it does: writes of quotas go through the ledger,
and writes that arrive after them wait for them. Where several servers share the store, each cluster with quotas has a guard, a key that
every write of a quota changes, and every write of an object compares it; the guard goes with the last quota. So a quota counts from the
moment of its creation, on all servers.

Limits of whole clusters are charged alike: writes of LogicalClusters that change limits are like writes of quotas, and the usage of the
cluster is a key of its own (`views`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits, Used, limits_of
from kcp_py.registry.clusterstate import CLUSTER_OBJECT
from kcp_py.registry.quota.account import Account
from kcp_py.registry.quota.quotas import Change, Quota
from kcp_py.registry.quota.usage import IGNORED
from kcp_py.registry.quota.views import Commit, Views, read_used
from kcp_py.registry.quota.writes import View, Write, changes_of
from kcp_py.storage.contract import Compare, ConflictError, Delete, Operation, Put, Storage, UnavailableError
from kcp_py.storage.keys import ResourceKeys, resource_of

_ATTEMPTS: Final = 64
_PAGE: Final = 10_000


class QuotaLedger:
    """Knows which clusters have quotas or limits, and charges their writes. A cluster without them costs nothing."""

    def __init__(
        self,
        storage: Storage,
        root: str,
        commit: Commit,
        *,
        shared: bool,
        quotas: bool = True,
        limits: Limits = NO_LIMITS,
        budget: ClusterBudget | None = None,
    ) -> None:
        """A ledger; `start` reads which clusters have quotas and limits.

        Args:
            storage: the store.
            root: its prefix, such as `/registry`.
            commit: writes to it.
            shared: whether other servers write to the store.
            quotas: whether ResourceQuotas are charged.
            limits: of clusters that state none.
            budget: of the memory of all caches.
        """
        self._storage = storage
        self._commit = commit
        self._shared = shared
        self._quotas = quotas
        self._defaults = limits
        self._all_limited = limits.counted
        self._views = Views(storage, root, commit, shared=shared, quotas=quotas, defaults=limits, budget=budget)
        self._keys = self._views.quota_keys
        self._own_prefixes = frozenset({self._views.cluster_keys.prefix, *((self._keys.prefix,) if quotas else ())})
        # Not a cache: which clusters have quotas must be known without a read for each write, so this grows with their number (about 120
        # bytes each).
        self._known: set[Name] = set()
        self._busy: dict[Name, Account] = {}
        self._refused = dict.fromkeys(Used._fields, 0)
        self.on_charged: Callable[[Name], object] | None = None
        """Called when the usage of a cluster with limits has changed."""

    def refused(self) -> Mapping[tuple[str, ...], float]:
        """How many writes were refused because of a limit of their cluster, by the limit."""
        return {(limit,): float(count) for limit, count in self._refused.items()}

    async def start(self) -> None:
        """Read which clusters have quotas or limits.

        Raises:
            StorageError: the store could not be read.
        """
        if self._quotas:
            await self._know(self._keys.prefix, self._keys.cluster_at)
        folder = self._views.usage_folder
        await self._know(folder, lambda key: key[len(folder) :])

    async def _know(self, prefix: str, cluster_at: Callable[[str], str]) -> None:
        start = ""
        while True:
            page = await self._storage.range(prefix, start=start, limit=_PAGE, keys_only=True)
            self._known.update(Name(cluster) for item in page.items if (cluster := cluster_at(item.key)))
            if not page.more:
                return
            start = page.items[-1].key + "\x00"

    def follows(self, cluster: Name, keys: ResourceKeys) -> bool:
        """Whether the ledger has to see the writes of a resource in a cluster."""
        return self._shared or cluster in self._known or self._all_limited or keys.prefix in self._own_prefixes

    def counts(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether quotas of a cluster may count objects of a resource."""
        return self._quotas and (cluster in self._known or self._shared) and resource not in IGNORED

    def limits(self, cluster: Name, annotations: Mapping[str, Any] | None) -> Limits:
        """The limits of a cluster by the annotations of its LogicalCluster."""
        return limits_of(cluster, annotations, self._defaults)

    async def used(self, cluster: Name) -> Used | None:
        """What the objects of a cluster with limits use; None where they are not counted.

        Raises:
            StorageError: the store could not be read.
        """
        item = await self._storage.get(self._views.usage(cluster))
        return None if item is None else read_used(item.value)

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
        """`Storage.transact` for an object of a resource, with its quotas and limits charged.

        Args:
            cluster: in which the object is.
            keys: of its resource.
            compares: the conditions; they say whether the object exists.
            operations: the changes.
            enforced: whether the write is refused where it exceeds a quota.
            limited: whether the write is refused where it exceeds a limit of the cluster.

        Returns:
            The revision after the transaction. Other writes of the cluster may have it, too.

        Raises:
            StatusError: 403, a quota or a limit is exceeded.
            ConflictError: a compare failed.
            StorageError: as `Storage.transact`.
        """
        if keys.prefix == self._views.cluster_keys.prefix:
            return await self._write_cluster(cluster, keys, compares, operations)
        if self._quotas and keys.prefix == self._keys.prefix:
            self._known.add(cluster)
            changes = await changes_of(self._storage, keys, compares, operations, enforced=enforced)
            return await self._enqueue(cluster, Write(keys.prefix, compares, operations, changes=changes, alone=True, filled=enforced))
        if not self._is_known(cluster):
            try:
                return await self._commit(
                    cluster, (keys.prefix,), (*compares, Compare(self._views.guard(cluster), mod_revision=0)), operations
                )
            except ConflictError as conflict:
                if conflict.key != self._views.guard(cluster):
                    raise
                self._known.add(cluster)
        changes = []
        if self._quotas and resource_of(keys.prefix, keys.root) not in IGNORED:
            changes = await changes_of(self._storage, keys, compares, operations, enforced=enforced)
        if not changes and (view := self._idle_view(cluster)) is not None:
            guards = (Compare(self._views.guard(cluster), mod_revision=view.guard),) if self._shared else ()
            try:
                return await self._commit(cluster, (keys.prefix,), (*compares, *guards), operations)
            except ConflictError as conflict:
                if conflict.key != self._views.guard(cluster):
                    raise
                self._views.drop(cluster)
        return await self._enqueue(cluster, Write(keys.prefix, compares, operations, changes=changes, limited=limited))

    def _is_known(self, cluster: Name) -> bool:
        return cluster in self._known or (self._all_limited and cluster != ROOT and not is_system(cluster)) or not self._shared

    def _idle_view(self, cluster: Name) -> View | None:
        """The view of a cluster whose usage is not kept. None where it may be, or come to be with a write that waits."""
        view = self._views.cached(cluster) if cluster not in self._busy else None
        return view if view is not None and view.usage is None and not view.limits.counted else None

    async def _write_cluster(self, cluster: Name, keys: ResourceKeys, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Store or remove the LogicalCluster. Other limits have effect when this has returned."""
        key = keys.object_key(cluster, "", CLUSTER_OBJECT)
        own = next((operation for operation in operations if operation.key == key), None)
        item = await self._storage.get(key)
        before = self._views.limits(cluster, None if item is None else item.value)
        if isinstance(own, Put) and self._views.limits(cluster, own.value) == before:
            return await self._commit(cluster, (keys.prefix,), compares, operations)
        # The transaction replaces the object as it was read.
        compares = (*compares, Compare(key, mod_revision=item.mod_revision if item is not None else 0))
        self._known.add(cluster)
        return await self._enqueue(cluster, Write(keys.prefix, compares, operations, alone=True))

    async def quotas(self, cluster: Name, namespace: str) -> Sequence[Quota]:
        """The quotas that concern objects of a namespace, as they are stored.

        Raises:
            StorageError: the store could not be read.
        """
        if not self._quotas or not (self._shared or cluster in self._known):
            return ()
        view = None if self._shared else self._views.cached(cluster)
        view = view or await self._views.load(cluster)
        return [quota for quota in view.quotas.values() if quota.concerns(namespace)]

    async def check(self, cluster: Name, keys: ResourceKeys, change: Change) -> None:
        """Check a write that is not carried out by the quotas.

        Raises:
            StatusError: 403, a quota would be exceeded.
            StorageError: the quotas could not be read.
        """
        if self.counts(cluster, change.resource):
            await self._enqueue(cluster, Write(keys.prefix, changes=(change,), dry_run=True))

    async def check_limits(self, cluster: Name, keys: ResourceKeys, compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
        """Check a transaction that is not carried out by the limits of the cluster.

        Raises:
            StatusError: 403, a limit would be exceeded.
            ConflictError: a compare on an object fails.
            StorageError: the limits could not be read.
        """
        if keys.prefix != self._views.cluster_keys.prefix:
            await self._enqueue(cluster, Write(keys.prefix, compares, operations, dry_run=True))

    async def recount(self, cluster: Name, namespace: str, name: str) -> None:
        """Count anew what a quota counts, and write the difference. Writes of the cluster wait meanwhile.

        Raises:
            StorageError: the store could not be read or written.
        """
        key = self._keys.object_key(cluster, namespace, name)
        await self._enqueue(cluster, Write(self._keys.prefix, alone=True, recounted=key))

    async def recount_cluster(self, cluster: Name) -> None:
        """Count anew what a cluster with limits uses. Writes of the cluster wait meanwhile.

        Raises:
            StorageError: the store could not be read or written.
        """
        self._known.add(cluster)
        await self._enqueue(cluster, Write(self._keys.prefix, alone=True, recounted=self._views.usage(cluster)))

    def expect(self, cluster: Name) -> None:
        """See the writes of a cluster from now on: its content, quotas included, is about to be replaced without the ledger."""
        self._known.add(cluster)

    async def replaced(self, cluster: Name) -> None:
        """Count everything anew after the content of a cluster was replaced, see `expect`. The guard goes with the last quota.

        Raises:
            StorageError: the store could not be read or written.
        """
        for _ in range(_ATTEMPTS):
            view = await self._views.load(cluster)
            quotas = [*view.quotas] if self._quotas else []
            kept = bool(quotas) or view.usage is not None
            if not self._shared or not (kept or view.guard):
                break
            guard = self._views.guard(cluster)
            # Other servers read the quotas again.
            changed: Operation = Put(guard, b"1") if kept else Delete(guard)
            with suppress(ConflictError):
                await self._commit(cluster, (), (Compare(guard, mod_revision=view.guard),), (changed,))
                break
        else:
            raise UnavailableError("the quotas change all the time")
        self._views.drop(cluster)
        for key in quotas:
            await self._enqueue(cluster, Write(self._keys.prefix, alone=True, recounted=key))
        if view.usage is not None:
            await self.recount_cluster(cluster)
        if not kept and cluster not in self._busy:
            self._known.discard(cluster)

    def _enqueue(self, cluster: Name, write: Write) -> asyncio.Future[int]:
        account = self._busy.get(cluster)
        if account is None:
            account = self._busy[cluster] = Account(
                cluster,
                self._views,
                charged=self._charged,
                refused=self._count_refusal,
                uncounted=self._known.discard,
                ended=self._busy.pop,
            )
        return account.add(write)

    def _charged(self, cluster: Name) -> None:
        if self.on_charged is not None:
            self.on_charged(cluster)

    def _count_refusal(self, limit: str) -> None:
        self._refused[limit] += 1

    async def aclose(self) -> None:
        """Stop. Writes that wait are answered with an error."""
        await asyncio.gather(*(account.aclose() for account in self._busy.values()))
