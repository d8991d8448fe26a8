"""`QuotaLedger`: charges the quotas of a cluster in the transaction of each write.

The usage of a quota is its `status.used`. A write that a quota counts stores its object and the new usage in one transaction, which
compares the revision of the quota. So no write passes that another one has not left room for, on this server or on another one. Writes
of one cluster that wait at the same time share a transaction: its quotas are written once for all of them.

A write has to know which quotas there are. Where this server alone writes to the store, it does: writes of quotas go through the ledger,
and writes that arrive after them wait for them. Where several servers share the store, each cluster with quotas has a guard, a key that
every write of a quota changes, and every write of an object compares it; the guard goes with the last quota. So a quota counts from the
moment of its creation, on all servers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.quota.counting import count
from kcp_py.registry.quota.quotas import RESOURCE_QUOTAS, Change, Quota
from kcp_py.registry.quota.usage import IGNORED
from kcp_py.registry.quota.writes import Batch, View, Write, changes_of, rebased
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, NoSpaceError, Operation, Put, Storage, UnavailableError
from kcp_py.storage.keys import ResourceKeys, resource_keys, resource_of

Commit = Callable[[Name, Iterable[str], Sequence[Compare], Sequence[Operation]], Awaitable[int]]
"""Carries out a transaction. Takes the cluster, the prefixes of the resources that are written, compares and operations."""

_CACHED_CLUSTERS: Final = 512
_ATTEMPTS: Final = 64
_PAGE: Final = 10_000


class _Account:
    """The writes of one cluster that wait."""

    __slots__ = ("pending", "task")

    def __init__(self) -> None:
        self.pending: deque[Write] = deque()
        self.task: asyncio.Task[None] | None = None


class QuotaLedger:
    """Knows which clusters have quotas, and charges their writes. A cluster without quotas costs nothing."""

    def __init__(self, storage: Storage, root: str, commit: Commit, *, shared: bool) -> None:
        """A ledger; `start` reads which clusters have quotas.

        Args:
            storage: the store.
            root: its prefix, such as `/registry`.
            commit: writes to it.
            shared: whether other servers write to the store.
        """
        self._storage = storage
        self._root = root
        self._commit = commit
        self._shared = shared
        self._keys = resource_keys(root, *RESOURCE_QUOTAS, namespaced=True)
        self._known: set[Name] = set()
        self._views: LRU[Name, View] = LRU(_CACHED_CLUSTERS)
        self._busy: dict[Name, _Account] = {}

    async def start(self) -> None:
        """Read which clusters have quotas.

        Raises:
            StorageError: the store could not be read.
        """
        start = ""
        while True:
            page = await self._storage.range(self._keys.prefix, start=start, limit=_PAGE, keys_only=True)
            self._known.update(Name(cluster) for item in page.items if (cluster := self._keys.cluster_at(item.key)))
            if not page.more:
                return
            start = page.items[-1].key + "\x00"

    def follows(self, cluster: Name, keys: ResourceKeys) -> bool:
        """Whether the ledger has to see the writes of a resource in a cluster."""
        return cluster in self._known or self._shared or keys.prefix == self._keys.prefix

    def counts(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether quotas of a cluster may count objects of a resource."""
        return (cluster in self._known or self._shared) and resource not in IGNORED

    async def transact(
        self, cluster: Name, keys: ResourceKeys, compares: Sequence[Compare], operations: Sequence[Operation], *, enforced: bool = True
    ) -> int:
        """`Storage.transact` for an object of a resource, with its quotas charged.

        Args:
            cluster: in which the object is.
            keys: of its resource.
            compares: the conditions; they say whether the object exists.
            operations: the changes.
            enforced: whether the write is refused where it exceeds a quota.

        Returns:
            The revision after the transaction. Other writes of the cluster may have it, too.

        Raises:
            StatusError: 403, a quota is exceeded.
            ConflictError: a compare failed.
            StorageError: as `Storage.transact`.
        """
        if keys.prefix == self._keys.prefix:
            self._known.add(cluster)
            changes = await changes_of(self._storage, keys, compares, operations, enforced=enforced)
            return await self._enqueue(cluster, Write(keys.prefix, compares, operations, changes=changes, alone=True, filled=enforced))
        resource = resource_of(keys.prefix, keys.root)
        if resource in IGNORED:
            return await self._commit(cluster, (keys.prefix,), compares, operations)
        if cluster not in self._known:
            try:
                return await self._commit(cluster, (keys.prefix,), (*compares, Compare(self._guard(cluster), mod_revision=0)), operations)
            except ConflictError as conflict:
                if conflict.key != self._guard(cluster):
                    raise
                self._known.add(cluster)
        changes = await changes_of(self._storage, keys, compares, operations, enforced=enforced)
        if not changes:
            return await self._commit(cluster, (keys.prefix,), compares, operations)
        return await self._enqueue(cluster, Write(keys.prefix, compares, operations, changes=changes))

    async def check(self, cluster: Name, keys: ResourceKeys, change: Change) -> None:
        """Check a write that is not carried out.

        Raises:
            StatusError: 403, a quota would be exceeded.
            StorageError: the quotas could not be read.
        """
        if self.counts(cluster, change.resource):
            await self._enqueue(cluster, Write(keys.prefix, changes=(change,), dry_run=True))

    async def recount(self, cluster: Name, namespace: str, name: str) -> None:
        """Count anew what a quota counts, and write the difference. Writes of the cluster wait meanwhile.

        Raises:
            StorageError: the store could not be read or written.
        """
        key = self._keys.object_key(cluster, namespace, name)
        await self._enqueue(cluster, Write(self._keys.prefix, alone=True, recounted=key))

    def _guard(self, cluster: Name) -> str:
        return f"{self._root}/.kcp-py/quotas/{cluster}"

    def _enqueue(self, cluster: Name, write: Write) -> asyncio.Future[int]:
        account = self._busy.get(cluster)
        if account is None:
            account = self._busy[cluster] = _Account()
            account.task = asyncio.create_task(self._drain(cluster, account), name=f"quotas of {cluster}")
        account.pending.append(write)
        return write.future

    async def aclose(self) -> None:
        """Stop. Writes that wait are answered with an error."""
        tasks = [account.task for account in self._busy.values() if account.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drain(self, cluster: Name, account: _Account) -> None:
        """Carry out what waits, until nothing does."""
        pending = account.pending
        batch: Batch | None = None
        try:
            while pending:
                batch = None
                try:
                    batch = await self._next_batch(cluster, pending)
                    pending.extendleft(reversed(await self._carry_out(cluster, batch)))
                except Exception as error:  # noqa: BLE001 - every write has to be answered
                    self._views.pop(cluster)
                    _fail(pending if batch is None else batch.writes, error)
                    if batch is None:
                        pending.clear()
        finally:
            _fail((*pending, *(batch.writes if batch is not None else ())), UnavailableError("the server is closing"))
            del self._busy[cluster]

    async def _next_batch(self, cluster: Name, pending: deque[Write]) -> Batch:
        """Take the first writes that wait: as many as fit into one transaction. Those that are refused are answered.

        Raises:
            StorageError: the quotas could not be read or written.
        """
        view = await self._filled(cluster)
        batch = Batch(view)
        while pending:
            write = pending[0]
            if write.future.done():
                pending.popleft()
                continue
            if not batch.has_room(write):
                break
            try:
                used = batch.charge(write)
            except StatusError as refusal:
                # The writes before it may yet fail; they leave room then.
                if not batch.writes and await self._is_fresh(cluster, view):
                    pending.popleft().fail(refusal)
                break
            pending.popleft()
            if write.dry_run:
                write.finish(0)
            else:
                batch.add(write, used)
        return batch

    async def _carry_out(self, cluster: Name, batch: Batch) -> Sequence[Write]:
        """Carry out a batch.

        Returns:
            The writes that have to be tried again.

        Raises:
            StorageError: as `Storage.transact`; no write of the batch is answered.
        """
        view, writes = batch.view, batch.writes
        if not writes:
            return ()
        alone = writes[0] if writes[0].alone else None
        if alone is not None and alone.recounted:
            await self._recounted(cluster, alone.recounted)
            alone.finish(0)
            return ()
        compares, operations, prefixes = self._transaction(cluster, batch)
        if alone is not None and alone.filled:
            operations = [await self._filled_operation(cluster, operation) for operation in operations]
        try:
            revision = await self._commit(cluster, prefixes, compares, operations)
        except ConflictError as conflict:
            return self._after_conflict(cluster, batch, conflict)
        except NoSpaceError:
            if len(writes) == 1:
                raise
            # Deletions are accepted where other writes are not.
            for write in writes:
                write.single = True
            return writes
        for key, used in batch.used.items():
            view = view.replaced(view.quotas[key].charged(used, revision))
        self._views.set(cluster, view)
        if alone is not None:
            revision = await self._follow_up(cluster, alone, revision)
        for write in writes:
            write.finish(revision)
        return ()

    def _transaction(self, cluster: Name, batch: Batch) -> tuple[Sequence[Compare], Sequence[Operation], set[str]]:
        """The compares, the operations and the prefixes of the resources of a batch."""
        view, writes = batch.view, batch.writes
        guards = (Compare(self._guard(cluster), mod_revision=view.guard),) if self._shared else ()
        charges = [(view.quotas[key], used) for key, used in batch.used.items()]
        compares: dict[Compare, None] = dict.fromkeys(guards)
        compares |= dict.fromkeys(Compare(quota.key, mod_revision=quota.mod_revision) for quota, _ in charges)
        operations: list[Operation] = []
        for write in writes:
            own, changed = rebased(write, view) if write.alone else (write.compares, write.operations)
            compares |= dict.fromkeys(own)
            operations += changed
        operations += (Put(quota.key, quota.with_usage(used)) for quota, used in charges)
        if self._shared and writes[0].alone:
            operations.append(self._guard_operation(cluster, view, writes[0]))
        prefixes = {write.prefix for write in writes}
        return [*compares], operations, prefixes | {self._keys.prefix} if charges else prefixes

    async def _filled_operation(self, cluster: Name, operation: Operation) -> Operation:
        """The operation, with the usage of a quota that has none for its limits.

        Its clients then see one write. What changes between this count and the transaction is found by the count that follows.
        """
        if not isinstance(operation, Put) or not operation.key.startswith(self._keys.prefix):
            return operation
        quota = Quota(KeyValue(operation.key, operation.value, 0, 0))
        return operation if quota.filled else Put(operation.key, quota.with_usage(await count(self._storage, self._root, cluster, quota)))

    def _after_conflict(self, cluster: Name, batch: Batch, conflict: ConflictError) -> Sequence[Write]:
        """Answer the write whose condition failed. After a condition of the ledger, all are tried again with fresh quotas."""
        if conflict.key in batch.view.quotas or conflict.key == self._guard(cluster):
            self._views.pop(cluster)
        if conflict.key in batch.used or conflict.key == self._guard(cluster):
            return batch.writes
        failed = next(write for write in batch.writes if any(compare.key == conflict.key for compare in write.compares))
        failed.fail(conflict)
        return [write for write in batch.writes if write is not failed]

    def _guard_operation(self, cluster: Name, view: View, write: Write) -> Operation:
        """What becomes of the guard with a write of quotas."""
        left = {key for key in view.quotas if key not in write.touched}
        left |= {operation.key for operation in write.operations if isinstance(operation, Put)}
        return Put(self._guard(cluster), b"1") if left else Delete(self._guard(cluster))

    async def _follow_up(self, cluster: Name, write: Write, revision: int) -> int:
        """Count what a quota that was just written counts. The write has happened: a failure is left to the next one.

        Returns:
            The revision of the count if it is the next write of the quota, so that the client of the write can go on with it. Otherwise
            that of the write.
        """
        self._views.pop(cluster)
        answered = revision
        try:
            for operation in write.operations:
                if isinstance(operation, Put) and operation.key.startswith(self._keys.prefix):
                    before, after = await self._recounted(cluster, operation.key)
                    answered = after if before == revision else answered
            view = await self._filled(cluster)
        except Exception:  # noqa: BLE001 - the next write of the cluster reads the quotas again
            self._views.pop(cluster)
            return answered
        if not view.quotas and not any(one.alone for one in self._busy[cluster].pending):
            self._known.discard(cluster)
        return answered

    async def _is_fresh(self, cluster: Name, view: View) -> bool:
        """Whether the quotas are as a write was judged by. Otherwise they are read again."""
        if not self._shared:
            return True
        found = await self._load(cluster)
        return found.revisions == view.revisions

    async def _load(self, cluster: Name) -> View:
        # The guard first: a quota that comes between the two reads changes it, so that a transaction on this view fails.
        guard = await self._storage.get(self._guard(cluster)) if self._shared else None
        items = (await self._storage.range(self._keys.cluster_prefix(cluster))).items
        view = View(guard.mod_revision if guard is not None else 0, {item.key: Quota(item) for item in items})
        self._views.set(cluster, view)
        return view

    async def _filled(self, cluster: Name) -> View:
        """The quotas of a cluster, each with its usage.

        Raises:
            StorageError: the store could not be read or written.
        """
        for _ in range(_ATTEMPTS):
            view = self._views.get(cluster) or await self._load(cluster)
            missing = next((quota for quota in view.quotas.values() if not quota.filled), None)
            if missing is None:
                return view
            await self._store_count(cluster, view, missing)
        raise UnavailableError("the quotas change all the time")

    async def _recounted(self, cluster: Name, key: str) -> tuple[int, int]:
        """Count what a quota counts, until no other server has changed it meanwhile.

        Returns:
            The revisions of the quota before and after; zeros where it is gone.
        """
        for _ in range(_ATTEMPTS):
            view = await self._load(cluster)
            quota = view.quotas.get(key)
            if quota is None:
                return 0, 0
            if after := await self._store_count(cluster, view, quota):
                return quota.mod_revision, after
        raise UnavailableError("the quotas change all the time")

    async def _store_count(self, cluster: Name, view: View, quota: Quota) -> int:
        """Count what a quota counts, and store it where it differs.

        Returns:
            The revision of the quota now; 0 where it has changed meanwhile.
        """
        used = await count(self._storage, self._root, cluster, quota)
        compares = [Compare(quota.key, mod_revision=quota.mod_revision)]
        if self._shared:
            compares.append(Compare(self._guard(cluster), mod_revision=view.guard))
        operations = () if used == quota.used and quota.filled else (Put(quota.key, quota.with_usage(used)),)
        try:
            revision = await self._commit(cluster, (self._keys.prefix,), compares, operations)
        except ConflictError:
            self._views.pop(cluster)
            return 0
        if operations:
            view = view.replaced(quota.charged(used, revision))
        self._views.set(cluster, view)
        return revision if operations else quota.mod_revision


def _fail(writes: Iterable[Write], error: BaseException) -> None:
    for write in writes:
        write.fail(error)
