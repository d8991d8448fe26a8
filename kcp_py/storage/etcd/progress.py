"""Asking how far quiet watches have come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

_SHORTEST: Final = 0.1
_PER_WATCH: Final = 0.005


class Watched(Protocol):
    """A running watch, as the asking sees it."""

    @property
    def wanted(self) -> int:
        """The revision that the watch wants to hear about at least; it is caught up from there on."""
        ...

    @property
    def delivered(self) -> int:
        """Every change up to here has been handed over."""
        ...

    @property
    def unanswered(self) -> int:
        """How many requests have gone out since something came in."""
        ...

    async def request_progress(self) -> None:
        """Ask the member; errors show on the watch itself."""
        ...


class ProgressRequester:
    """Asks for the progress of watches that lag behind what this server has seen, and now and then of all.

    A watch that is behind is asked for about every 100 ms, ever less often while nothing comes (its reader may be slow); a watch that is
    level with the newest revision seen here only every `interval` seconds, in case other servers have written: so that an idle store costs
    nearly nothing.
    """

    def __init__(self, interval: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._interval = interval
        self._sleep = sleep
        self._observed = 0
        self._behind = asyncio.Event()
        self._watches: set[Watched] = set()
        self._task: asyncio.Task[None] | None = None

    def observe(self, revision: int) -> None:
        """The store is at least at this revision."""
        if revision > self._observed:
            self._observed = revision
            if self._watches:
                self._behind.set()

    def add(self, watch: Watched) -> None:
        """Ask for this watch's progress from now on."""
        self._watches.add(watch)
        self._behind.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="etcd-progress")

    def remove(self, watch: Watched) -> None:
        """Stop asking for it."""
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
                # 1, 2, 4 … 64 rounds apart while unanswered
                if idle or (behind and rounds % (1 << min(watch.unanswered, 6)) == 0):
                    await watch.request_progress()
                if behind:
                    self._behind.set()
            # At most 200 requests a second, which take about a hundredth of a core.
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
