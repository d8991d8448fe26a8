"""`Lanes`: work in lanes, one for each owner. Work that waits, as for a server that hangs, holds up its own lane alone."""

from __future__ import annotations

import asyncio
import types
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Hashable
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from kcp_py.aio.cooperative import Throttle

T = TypeVar("T")

PER_LANE: Final = 16
MOST: Final = 256


class Lanes(Generic[T]):
    """Pieces of work, of which nearly all find what they need in memory. Within the context, they are done in turns of the lanes.

    One task does the pieces one after the other. When a piece begins to wait, another task goes on with the next pieces. So only pieces
    that wait take places.
    """

    def __init__(self, work: Callable[[T], Coroutine[Any, Any, None]], *, per_lane: int = PER_LANE, most: int = MOST) -> None:
        """Prepare.

        Args:
            work: does one piece. It raises nothing.
            per_lane: pieces of one lane that wait at a time. The others of the lane come after them.
            most: pieces of all lanes that wait at a time. At this number, all lanes pause.
        """
        self._work = work
        self._per_lane = per_lane
        self._most = most
        self._throttle = Throttle()
        self._group = asyncio.TaskGroup()
        # The lanes with pieces, by whether a further piece may begin. The next lane comes first.
        self._ready: dict[Hashable, deque[T]] = {}
        self._held: dict[Hashable, deque[T]] = {}
        self._waiting: Counter[Hashable] = Counter()
        self._places = most
        self._resting = asyncio.Event()
        self._resting.set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._group.__aexit__(kind, error, trace)

    def add(self, lane: Hashable, piece: T) -> None:
        """Do a piece of work after those that the lane has."""
        pieces = self._held if self._waiting[lane] >= self._per_lane else self._ready
        pieces.setdefault(lane, deque()).append(piece)
        self._go_on()

    async def begun(self) -> None:
        """Return when every piece has begun, but for those of lanes that wait."""
        while not self._resting.is_set():
            await self._resting.wait()

    def _go_on(self) -> None:
        if self._resting.is_set() and self._ready and self._places:
            self._resting.clear()
            self._group.create_task(self._take_turns())

    async def _take_turns(self) -> None:
        while self._ready and self._places:
            await self._throttle.take()
            lane = next(iter(self._ready))
            pieces = self._ready.pop(lane)
            piece = pieces.popleft()
            if pieces:
                self._ready[lane] = pieces
            work = self._work(piece)
            try:
                waiting = work.send(None)
            except StopIteration:
                continue
            await self._wait(lane, work, waiting)
            if not self._resting.is_set():
                # Another task has gone on.
                return
            self._resting.clear()
        self._resting.set()

    async def _wait(self, lane: Hashable, work: Coroutine[Any, Any, None], waiting: Any) -> None:
        self._places -= 1
        self._waiting[lane] += 1
        if self._waiting[lane] >= self._per_lane and (pieces := self._ready.pop(lane, None)) is not None:
            self._held[lane] = pieces
        self._resting.set()
        self._go_on()
        try:
            await rest_of(work, waiting)
        finally:
            self._places += 1
            self._waiting[lane] -= 1
            if not self._waiting[lane]:
                del self._waiting[lane]
            if (pieces := self._held.pop(lane, None)) is not None:
                self._ready[lane] = pieces


@types.coroutine
def rest_of(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that waits for `waiting`, in the task in which it began."""
    while True:
        try:
            value = yield waiting
        except BaseException as error:  # noqa: BLE001 - the coroutine receives it, cancellation above all
            step: Callable[[], Any] = partial(work.throw, error)
        else:
            step = partial(work.send, value)
        try:
            waiting = step()
        except StopIteration as done:
            result: T = done.value
            return result
