"""`Account`: the writes of one cluster with quotas or limits that wait, and the task that carries them out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.quota.growth import growth_of
from kcp_py.registry.quota.transaction import transaction_of
from kcp_py.registry.quota.views import Views
from kcp_py.registry.quota.writes import Batch, View, Write
from kcp_py.storage.contract import ConflictError, Delete, NoSpaceError, Put, UnavailableError

_READ_AHEAD: Final = 64
"""Writes whose objects are read at the same time."""


class Account:
    """Carries out the writes of one cluster in their order, as many at once as fit into a transaction. It ends when none waits.

    The queue has no limit of its own: each request waits for its write.
    """

    def __init__(
        self,
        cluster: Name,
        views: Views,
        *,
        charged: Callable[[Name], object],
        refused: Callable[[str], object],
        uncounted: Callable[[Name], object],
        ended: Callable[[Name], object],
    ) -> None:
        """Begin without writes.

        Args:
            cluster: whose writes these are.
            views: reads its quotas and limits, and keeps them.
            charged: called when the usage of the cluster has changed.
            refused: called with the limit of the cluster because of which a write was refused, a member of `Used`.
            uncounted: called when the cluster has no quotas and no limits any more.
            ended: called at the end. Later writes need another account.
        """
        self._cluster = cluster
        self._views = views
        self._charged = charged
        self._refused = refused
        self._uncounted = uncounted
        self._ended = ended
        self._pending: deque[Write] = deque()
        self._task = asyncio.create_task(self._drain(), name=f"quotas of {cluster}")

    def add(self, write: Write) -> asyncio.Future[int]:
        """Append a write.

        Returns:
            The answer, see `QuotaLedger.transact`.
        """
        self._pending.append(write)
        return write.future

    async def aclose(self) -> None:
        """Stop. Writes that wait are answered with an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _drain(self) -> None:
        """Carry out what waits, until nothing does."""
        pending = self._pending
        batch: Batch | None = None
        try:
            while pending:
                batch = None
                try:
                    batch = await self._next_batch()
                    pending.extendleft(reversed(await self._carry_out(batch)))
                except Exception as error:  # noqa: BLE001 - every write has to be answered
                    self._views.drop(self._cluster)
                    _fail(pending if batch is None else batch.writes, error)
                    if batch is None:
                        pending.clear()
        finally:
            _fail((*pending, *(batch.writes if batch is not None else ())), UnavailableError("the server is closing"))
            self._ended(self._cluster)

    async def _next_batch(self) -> Batch:
        """Take the first writes that wait: as many as fit into one transaction. Those that are refused are answered.

        Raises:
            StorageError: the quotas could not be read or written.
        """
        pending = self._pending
        view = await self._views.filled(self._cluster)
        if view.usage is not None:
            await self._find_growth()
        batch = Batch(view)
        while pending:
            write = pending[0]
            if write.future.done():
                pending.popleft()
                continue
            if not batch.has_room(write) or (view.usage is not None and write.growth is None and not write.recounted):
                break
            try:
                used = batch.charge(write)
            except StatusError as refusal:
                # The writes before it may yet fail; they leave room then.
                if not batch.writes and await self._is_fresh(view):
                    pending.popleft().fail(refusal)
                    if batch.exceeded:
                        self._refused(batch.exceeded)
                break
            if batch.is_crowded(write, used):
                break
            pending.popleft()
            if write.dry_run:
                write.finish(0)
            else:
                batch.add(write, used)
        return batch

    async def _find_growth(self) -> None:
        """Find out what the first writes that wait do to the usage of their cluster. Those that fail by that are answered."""
        storage, root = self._views.storage, self._views.root
        waiting = [write for write in islice(self._pending, _READ_AHEAD) if not write.recounted and write.growth is None]

        async def find(write: Write) -> None:
            try:
                write.growth = await growth_of(storage, root, self._cluster, write.compares, write.operations, enforced=write.limited)
                write.compares = (*write.compares, *write.growth.compares)
            except Exception as error:  # noqa: BLE001 - the write has to be answered
                write.fail(error)

        await asyncio.gather(*map(find, waiting))

    async def _carry_out(self, batch: Batch) -> Sequence[Write]:
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
            await self._recount(alone.recounted)
            alone.finish(0)
            return ()
        compares, operations, prefixes = transaction_of(self._views, batch)
        if alone is not None and alone.filled:
            operations = [await self._views.filled_operation(self._cluster, operation) for operation in operations]
        compares, operations, used = self._views.with_usage(view, batch.growth, compares, operations)
        try:
            revision = await self._views.commit(self._cluster, prefixes, compares, operations)
        except ConflictError as conflict:
            return self._after_conflict(batch, conflict)
        except NoSpaceError:
            if len(writes) == 1:
                raise
            # Deletions are accepted where other writes are not.
            for write in writes:
                write.single = True
            return writes
        for key, amounts in batch.used.items():
            view = view.replaced(view.quotas[key].charged(amounts, revision))
        self._views.keep(self._cluster, view.with_used(used, revision))
        if used is not None:
            self._charged(self._cluster)
        if alone is not None:
            revision = await self._follow_up(alone, revision)
        for write in writes:
            write.finish(revision)
        return ()

    def _after_conflict(self, batch: Batch, conflict: ConflictError) -> Sequence[Write]:
        """Answer the write whose condition failed. After a condition of the ledger, all are tried again with fresh quotas."""
        internal = conflict.key in {self._views.guard(self._cluster), self._views.usage(self._cluster)}
        if internal or conflict.key in batch.view.quotas:
            self._views.drop(self._cluster)
        if internal or conflict.key in batch.used:
            return batch.writes
        failed = next(write for write in batch.writes if any(compare.key == conflict.key for compare in write.compares))
        failed.fail(conflict)
        return [write for write in batch.writes if write is not failed]

    async def _follow_up(self, write: Write, revision: int) -> int:
        """Count what a quota that was just written counts. The write has happened: a failure is left to the next one.

        Returns:
            The revision of the count if it is the next write of the quota, so that the client of the write can go on with it. Otherwise
            that of the write.
        """
        self._views.drop(self._cluster)
        answered = revision
        if any(
            operation.key.startswith(self._views.cluster_keys.prefix) for operation in write.operations if isinstance(operation, Delete)
        ):
            # The cluster is gone, and its usage with it.
            return answered
        try:
            for operation in write.operations:
                if isinstance(operation, Put) and operation.key.startswith(self._views.quota_keys.prefix):
                    before, after = await self._views.recounted(self._cluster, operation.key)
                    answered = after if before == revision else answered
            view = await self._views.filled(self._cluster)
        except Exception:  # noqa: BLE001 - the next write of the cluster reads the quotas again
            self._views.drop(self._cluster)
            return answered
        if view.usage is not None:
            self._charged(self._cluster)
        if not view.quotas and view.usage is None and not any(one.alone for one in self._pending):
            self._uncounted(self._cluster)
        return answered

    async def _recount(self, key: str) -> None:
        if key != self._views.usage(self._cluster):
            await self._views.recounted(self._cluster, key)
            return
        await self._views.used_anew(self._cluster)
        self._charged(self._cluster)

    async def _is_fresh(self, view: View) -> bool:
        """Whether the quotas are as a write was judged by. Otherwise they are read again."""
        if not self._views.shared:
            return True
        found = await self._views.load(self._cluster)
        return found.revisions == view.revisions


def _fail(writes: Iterable[Write], error: BaseException) -> None:
    for write in writes:
        write.fail(error)
