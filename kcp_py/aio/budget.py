"""`FairBudget`: a bounded amount of something, shared by owners who take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

PATIENCE_SECONDS: Final = 30.0


class BudgetExceededError(Exception):
    """There is no room, and none was made in time, or too many wait for it already."""


class FairBudget:
    """Gives out amounts up to a bound for all and a bound for each owner; what exceeds them waits.

    Owners that wait are served in turn, one request each, and the requests of one owner in the order in which they came. An owner without
    any amount gets any amount that there is room for, and the only amount given out may be of any size, so that no request waits for ever.

    The owner whose turn it is keeps it while there is no room for it in all: small requests do not overtake large ones for ever.
    """

    def __init__(self, total: int, share: int, *, queue: int = 200, queues: int = 2000, patience: float = PATIENCE_SECONDS) -> None:
        """Begin with nothing given out.

        Args:
            total: the amount for all.
            share: the amount for one owner.
            queue: how many requests of one owner may wait.
            queues: how many requests may wait in all.
            patience: seconds that a request may wait.
        """
        self._total = total
        self._share = share
        self._queue = queue
        self._queues = queues
        self._patience = patience
        self._given: dict[str, int] = {}
        self._sum = 0
        # By owner, in the order of their turns.
        self._waiting: dict[str, deque[_Request]] = {}
        self._count = 0

    @property
    def given(self) -> int:
        """What is given out."""
        return self._sum

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._count

    def given_to(self, owner: str) -> int:
        """What is given out to one owner."""
        return self._given.get(owner, 0)

    async def acquire(self, owner: str, amount: int) -> None:
        """Return once the amount is given out. To be given back with `release`.

        Raises:
            BudgetExceededError: it is not.
        """
        if not self._waiting and self._is_room(amount) and self._is_share(owner, amount):
            self._give(owner, amount)
            return
        queue = self._waiting.get(owner)
        if self._count >= self._queues or (queue is not None and len(queue) >= self._queue):
            raise BudgetExceededError
        request = _Request(amount, asyncio.get_running_loop().create_future())
        if queue is None:
            queue = self._waiting[owner] = deque()
        queue.append(request)
        self._count += 1
        self._serve()
        try:
            async with asyncio.timeout(self._patience):
                await request.given
        except BaseException as error:
            if request.given.done() and not request.given.cancelled():
                self.release(owner, amount)
            else:
                self._forget(owner, request)
            if isinstance(error, TimeoutError):
                raise BudgetExceededError from None
            raise

    def release(self, owner: str, amount: int) -> None:
        """Take back an amount, or a part of it."""
        self._sum -= amount
        left = self._given[owner] - amount
        if left:
            self._given[owner] = left
        else:
            del self._given[owner]
        if self._waiting:
            self._serve()

    def _is_room(self, amount: int) -> bool:
        return not self._sum or self._sum + amount <= self._total

    def _is_share(self, owner: str, amount: int) -> bool:
        given = self._given.get(owner, 0)
        return not given or given + amount <= self._share

    def _give(self, owner: str, amount: int) -> None:
        self._sum += amount
        self._given[owner] = self._given.get(owner, 0) + amount

    def _serve(self) -> None:
        while (owner := self._next()) is not None:
            queue = self._waiting.pop(owner)
            request = queue.popleft()
            if queue:
                self._waiting[owner] = queue
            self._count -= 1
            self._give(owner, request.amount)
            request.given.set_result(None)

    def _next(self) -> str | None:
        """Whose turn it is."""
        for owner, queue in self._waiting.items():
            amount = queue[0].amount
            if self._is_share(owner, amount):
                return owner if self._is_room(amount) else None
        return None

    def _forget(self, owner: str, request: _Request) -> None:
        queue = self._waiting[owner]
        queue.remove(request)
        if not queue:
            del self._waiting[owner]
        self._count -= 1
        # It may have stood in the way of others.
        self._serve()


class _Request:
    __slots__ = ("amount", "given")

    def __init__(self, amount: int, given: asyncio.Future[None]) -> None:
        self.amount = amount
        self.given = given
