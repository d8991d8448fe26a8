"""Progress requests of quiet watches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

_SHORTEST: Final = 0.1
_PER_WATCH: Final = 0.005


class Watched(Protocol):
    """A running watch, as seen by progress requests."""

    @property
    def wanted(self) -> int:
        """The minimum revision that the watch waits for; from there on it is caught up."""
        ...

    @property
    def delivered(self) -> int:
        """The revision up to which every change was delivered."""
        ...

    @property
    def unanswered(self) -> int:
        """The number of requests since the last response."""
        ...

    async def request_progress(self) -> None:
        """Send a request to the member. Errors appear on the watch."""
        ...


class ProgressRequester:
    """Requests the progress of watches that are behind the newest known revision, and at intervals of all watches.

    A watch that is behind is polled about every 100 ms, with increasing intervals without a response (its reader may be slow). A watch at
    the newest known revision is polled only every `interval` seconds, in case other servers have written. An idle store therefore costs
    almost nothing.
    """

    def __init__(self, interval: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._interval = interval
        self._sleep = sleep
        self._observed = 0
        self._behind = asyncio.Event()
        self._watches: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    def observe(self, revision: int) -> None:
        """Record that the store has reached at least this revision."""
        if revision > self._observed:
            self._observed = revision
            if self._watches:
                self._behind.set()

    def add(self, watch: Watched) -> None:
        """Request the progress of this watch from now on."""
        self._watches.add(watch)
        self._behind.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="etcd-progress")

    async def request_now(self) -> None:
        """Request the progress of the watches that are behind and have no request under way."""
        for watch in list(self._watches):
            if not watch.unanswered and watch.delivered < max(watch.wanted, self._observed):
                await watch.request_progress()

    def remove(self, watch: Watched) -> None:
        """Stop the requests for this watch."""
        self._watches.discard(watch)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        rounds = 0
        while True:
            idle = not await self._wait()
            self._behind.clear()
            rounds += 1
            for watch in list(self._watches):
                behind = watch.delivered < max(watch.wanted, self._observed)
                # at intervals of 1, 2, 4 … 64 rounds without an answer
                if idle or (behind and rounds % (1 << min(watch.unanswered, 6)) == 0):
                    await watch.request_progress()
                if behind:
                    self._behind.set()
            # At most 200 requests a second, which take about 1 % of a core.
            await self._sleep(max(_SHORTEST, _PER_WATCH * len(self._watches)))

    async def _wait(self) -> bool:
        """Wait until a watch may be behind (True) or the interval has passed (False)."""
        if self._behind.is_set():
            return True
        waits = {asyncio.ensure_future(self._behind.wait()), asyncio.ensure_future(self._sleep(self._interval))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._behind.is_set()
