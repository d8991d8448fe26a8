"""`ReadIndex`: the revision that a read must have seen to be linearizable.

Every write that was acknowledged before a read began has a revision up to the read index of this read. A state in memory that includes all
changes up to the read index answers the read as the store would (Kubernetes: `ConsistentListFromCache`, KEP-2340).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from kcp_py.storage.contract import StorageError, UnavailableError

_MOST_TURNS: Final = 4
"""Iterations of the event loop for which a call waits while further reads arrive."""


class ReadIndex(Protocol):
    """Says how far a store has come."""

    async def read_index(self) -> int:
        """A revision of the store, not lower than that of any write that was acknowledged before the call.

        Raises:
            UnavailableError: the store does not answer.
        """
        ...


class JointReadIndex:
    """One call of a store for all reads that waited when the call began.

    A read that arrives during a call waits for the next one, because the revision that is on its way may be older than the read.
    """

    def __init__(self, fetch: Callable[[], Awaitable[int]]) -> None:
        """`fetch` reads the revision of the store, without any cache."""
        self._fetch = fetch
        self._waiting: list[asyncio.Future[int]] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def read_index(self) -> int:
        """`ReadIndex.read_index`."""
        if self._closed:
            raise UnavailableError("the store is closing")
        # Each read has a future of its own, because the cancellation of one must not affect the others.
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="read-index")
        return await future

    async def close(self) -> None:
        """End all reads with `UnavailableError`."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        waiting: list[asyncio.Future[int]] = []
        try:
            while self._waiting:
                joined = turns = 0
                while joined < len(self._waiting) and turns < _MOST_TURNS:
                    joined = len(self._waiting)
                    turns += 1
                    await asyncio.sleep(0)
                waiting, self._waiting = self._waiting, []
                try:
                    revision = await self._fetch()
                except StorageError as error:
                    _fail(waiting, error)
                else:
                    for future in waiting:
                        if not future.done():
                            future.set_result(revision)
        finally:
            self._task = None
            _fail((*waiting, *self._waiting), UnavailableError("the store is closing"))


def _fail(waiting: list[asyncio.Future[int]] | tuple[asyncio.Future[int], ...], error: StorageError) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)
