"""The storage contract over etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Self

from kcp_py.storage.contract import LARGEST_PAGE_BYTES, Compare, KeyValue, Operation, RangeResult, WatchBatch
from kcp_py.storage.etcd.channel import Connections
from kcp_py.storage.etcd.kv import KeyValues
from kcp_py.storage.etcd.maintenance import Status, status
from kcp_py.storage.etcd.options import EtcdOptions
from kcp_py.storage.etcd.progress import ProgressRequester
from kcp_py.storage.etcd.watch import Watches


class EtcdStorage:
    """A `Storage` in an etcd that several servers may share. Use it as a context in one event loop.

    Differences from the embedded drivers: an empty store is at revision 1; a value is at most 1.5 MiB and a transaction likewise (etcd's
    `--max-request-bytes`; `StorageError` beyond); a transaction has at most about 120 compares (its `--max-txn-ops`).
    """

    def __init__(self, options: EtcdOptions, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Configure the store. It connects when the context is entered. `sleep` waits between attempts and progress requests."""
        self._options = options
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        self._connections = Connections(self._options)
        self._requester = ProgressRequester(self._options.progress_interval, self._sleep)
        self._key_values = KeyValues(self._connections, self._options, self._requester.observe)
        self._watches = Watches(self._connections, self._key_values, self._requester, sleep=self._sleep)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._requester.close()
        await self._connections.close()

    async def get(self, key: str) -> KeyValue | None:
        return await self._key_values.get(key)

    async def read(self, key: str) -> tuple[KeyValue | None, int]:
        """`get`, with the revision of the store at which the key was read."""
        return await self._key_values.read(key)

    async def request_progress(self) -> None:
        """Request the progress of the watches that are behind the newest known revision now, instead of at the next interval."""
        await self._requester.request_now()

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
        return await self._key_values.range(
            prefix, start=start, limit=limit, revision=revision, count=count, keys_only=keys_only, max_bytes=max_bytes
        )

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        return await self._key_values.transact(compares, operations)

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        return self._watches.watch(prefix, start_revision=start_revision)

    async def revision(self) -> int:
        return await self._key_values.revision()

    async def compact(self, revision: int) -> None:
        await self._key_values.compact(revision)

    async def check(self) -> None:
        await self._key_values.revision()

    async def status(self) -> Status:
        """The state of a member, for `doctor` and metrics.

        Raises:
            UnavailableError: no member answers.
        """
        return await status(self._connections)

    async def size(self) -> int:
        """Bytes of the database file of a member.

        Raises:
            UnavailableError: no member answers.
        """
        return (await self.status()).size
