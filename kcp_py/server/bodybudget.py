"""`BodyBudget`: how many bytes of large request bodies are in memory at once, and how many of them are worked on.

A body of megabytes takes many times its size while it is decoded and judged. So a request with a large body asks twice: before its body is
read, and when it is complete. Until then nothing is read from its connection but what came together with its head. Logical clusters take
turns. Bodies that are not large do not ask.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kcp_py.aio.budget import BudgetExceededError, FairBudget
from kcp_py.aio.slot import CURRENT_SLOT
from kcp_py.apimachinery.errors import StatusError, too_many_requests

LIGHT_BYTES: Final = 64 * 1024
"""Bodies up to this size are not counted: the connection reads as much before a handler asks for it."""
LIGHT_DIGITS: Final = 4
"""A Content-Length with no more digits is far below `LIGHT_BYTES`."""
TOTAL_BYTES: Final = 64 * 1024 * 1024
"""The default of `--max-body-bytes-in-flight`."""
CLUSTER_BYTES: Final = 8 * 1024 * 1024
"""The default of `--max-cluster-body-bytes-in-flight`."""
QUEUE: Final = 200
RETRY_AFTER_SECONDS: Final = 5
GRACE_SECONDS: Final = 10.0
"""Seconds that a body may take in addition to the time that its size allows."""
LEAST_BYTES_PER_SECOND: Final = 128 * 1024
"""The average rate that a client must reach after that: a megabit a second."""

_WORKED_ON: Final = 8
"""An eighth of the bytes in flight is processed at a time, and in each cluster a quarter of its part."""


class BodyBudget:
    """The bounds, shared by all requests.

    Attributes:
        held: bytes of bodies in flight, by logical cluster.
        worked_on: the part of them that was read and is not answered yet, but for what waits for a webhook.
        grace: seconds that a body may take in addition to the time that its size allows.
    """

    def __init__(self, total: int = TOTAL_BYTES, cluster: int = CLUSTER_BYTES, *, queue: int = QUEUE, grace: float = GRACE_SECONDS) -> None:
        """Begin with nothing in flight.

        Args:
            total: bytes of bodies in flight.
            cluster: the same for one logical cluster.
            queue: how many requests to one logical cluster may wait to be read.
            grace: seconds that a body may take in addition to the time that its size allows.
        """
        self.grace = grace
        self.held = FairBudget(total, cluster, queue=queue)
        self.worked_on = FairBudget(total // _WORKED_ON, cluster // 4)


class Place:
    """What one request holds of the budget."""

    __slots__ = ("_begun", "_budget", "_cluster", "_held", "_worked_on")

    def __init__(self, budget: BodyBudget, cluster: str) -> None:
        self._budget = budget
        self._cluster = cluster
        self._held = 0
        self._worked_on = 0
        self._begun = 0.0

    async def hold(self, size: int) -> None:
        """Return once so many bytes may be read.

        Raises:
            StatusError: 429.
        """
        try:
            await self._budget.held.acquire(self._cluster, size)
        except BudgetExceededError:
            raise _refused() from None
        self._held = size
        self._begun = asyncio.get_running_loop().time()

    def deadline(self, received: int) -> float:
        """When the next part of a body must have come, by the clock of the event loop: space is not held for those who do not use it.

        Args:
            received: bytes that have come.
        """
        return self._begun + self._budget.grace + received / LEAST_BYTES_PER_SECOND

    async def work(self, size: int) -> None:
        """Return once the body may be worked on.

        Args:
            size: what it turned out to be; no more than was held.

        Raises:
            StatusError: 429.
        """
        if size and size < self._held:
            self._budget.held.release(self._cluster, self._held - size)
            self._held = size
        try:
            await self._budget.worked_on.acquire(self._cluster, self._held)
        except BudgetExceededError:
            raise _refused() from None
        self._worked_on = self._held
        CURRENT_SLOT.set(self)

    async def resume(self) -> None:
        """Go on with the work after `rest`, once there is room. Harmless at work, and after `leave`.

        The request is not refused any more, since it may have been carried out: where no room is made in time, it goes on all the same.
        """
        size = self._held
        if not self._rests():
            return
        try:
            await self._budget.worked_on.acquire(self._cluster, size)
        except BudgetExceededError:
            return
        if self._rests():
            self._worked_on = size
        else:
            self._budget.worked_on.release(self._cluster, size)

    def _rests(self) -> bool:
        return bool(self._held) and not self._worked_on

    def rest(self) -> None:
        """The work is done, and the client reads its answer, as slowly as it likes; or it waits for the network until `resume`."""
        if self._worked_on:
            self._budget.worked_on.release(self._cluster, self._worked_on)
            self._worked_on = 0

    def leave(self) -> None:
        """The request has ended."""
        self.rest()
        if self._held:
            self._budget.held.release(self._cluster, self._held)
            self._held = 0


def _refused() -> StatusError:
    return too_many_requests("Too many large requests, please try again later.", RETRY_AFTER_SECONDS)
