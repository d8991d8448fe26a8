"""`Position`: how far the watch of a store has come, and the reads that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

PATIENCE: Final = 0.25
"""Seconds that a read waits for the watch before it reads the store itself."""
_GRACE: Final = 0.002
"""Seconds before the progress of the watch is requested: an event usually arrives earlier."""
_INTERVAL: Final = 0.02
"""Seconds between further requests."""

_LOST: Final = -1


class _Waiter(NamedTuple):
    revision: int
    deadline: float
    future: asyncio.Future[bool]


class Position:
    """The revision up to which every change was applied.

    While the watch lags, no read waits for it: the first one whose time ran out tells the others.
    """

    def __init__(self, *, request_progress: Callable[[], None], patience: float = PATIENCE) -> None:
        """`request_progress` asks the store how far a watch without events has come; it must not block."""
        self.revision = _LOST
        """-1 without a watch."""
        self.lagging = True
        """Whether the time of a read ran out, and the watch has not come so far since; also without a watch."""
        self._request_progress = request_progress
        self._patience = patience
        self._wanted = 0
        self._waiters: list[_Waiter] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, revision: int) -> None:
        """Record that a watch starts directly after this revision."""
        self.revision = revision
        self._wanted = 0
        self.lagging = False
        self._release()

    def advance(self, revision: int) -> None:
        """Record that every change up to this revision was applied."""
        if revision <= self.revision:
            return
        self.revision = revision
        if self.lagging and revision >= self._wanted:
            self.lagging = False
        if self._waiters:
            self._release()

    def lose(self) -> None:
        """Record that the watch ended. Waiting reads read the store."""
        self.revision = _LOST
        self.lagging = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _resolve(waiter, reached=False)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def reached(self, revision: int) -> bool:
        """Wait until every change up to this revision was applied; False if that takes too long."""
        if revision <= self.revision:
            return True
        if self.lagging:
            return False
        loop = asyncio.get_running_loop()
        waiter = _Waiter(revision, loop.time() + self._patience, loop.create_future())
        self._waiters.append(waiter)
        if self._timer is None:
            self._timer = loop.call_later(_GRACE, self._tick)
        return await waiter.future

    def _release(self) -> None:
        waiting: list[_Waiter] = []
        for waiter in self._waiters:
            if waiter.revision <= self.revision:
                _resolve(waiter, reached=True)
            else:
                waiting.append(waiter)
        self._waiters = waiting

    def _tick(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiting: list[_Waiter] = []
        for waiter in self._waiters:
            if waiter.future.done():
                continue
            if waiter.deadline <= now:
                self.lagging = True
                self._wanted = max(self._wanted, waiter.revision)
                _resolve(waiter, reached=False)
            else:
                waiting.append(waiter)
        self._waiters = waiting
        if waiting:
            self._request_progress()
            self._timer = loop.call_later(_INTERVAL, self._tick)


def _resolve(waiter: _Waiter, *, reached: bool) -> None:
    if not waiter.future.done():
        waiter.future.set_result(reached)
