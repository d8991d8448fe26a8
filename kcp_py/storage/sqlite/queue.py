"""The queue of writes, and the groups that become one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

from kcp_py.aio.stages import stages_ended
from kcp_py.storage.contract import Compare, Operation

LARGEST_GROUP: Final = 512
"""Transactions of one commit."""
_LONGEST_GATHERING: Final = 0.01
"""Seconds for which a group may grow."""
_QUIET_TURNS: Final = 2
"""Iterations of the event loop without a further write that close a group. A received request becomes a write one iteration later."""


class Request(NamedTuple):
    """A queued transaction or compaction."""

    future: asyncio.Future[int]
    compares: Sequence[Compare]
    operations: Sequence[Operation]
    compact: int
    """The revision to compact at, instead of a transaction; 0 for none."""


_Fields = tuple[asyncio.Future[int], Sequence[Compare], Sequence[Operation], int]
new_request: Final[Callable[[_Fields], Request]] = partial(tuple.__new__, Request)
"""A request of its fields, in a third of the time."""


class WriteQueue:
    """Any number of tasks put requests; the task of the writer alone takes groups and waits."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, request: Request) -> None:
        """Append a request, and wake the writer."""
        self._requests.append(request)
        if self._waiter is not None:
            self.wake()

    def wake(self) -> None:
        """End a `wait`."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def gather(self) -> list[Request]:
        """The next group, which grows while every few iterations of the event loop add another write.

        Under load the event loop is the bottleneck, not the disk: clients that were just answered write again, and a commit of two writes
        is hardly slower than a commit of one. An idle event loop iterates within a few microseconds. Requests between two stages of their
        work are waited for, too.
        """
        requests = self._requests
        seen = 0, stages_ended()
        until = perf_counter() + _LONGEST_GATHERING
        while (found := (len(requests), stages_ended())) != seen and found[0] < LARGEST_GROUP and perf_counter() < until:
            seen = found
            for _ in range(_QUIET_TURNS):
                await asyncio.sleep(0)
        return [requests.popleft() for _ in range(min(len(requests), LARGEST_GROUP))]
