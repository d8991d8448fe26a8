"""`FairBudget`: a bounded amount of a resource, shared by owners that take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

PATIENCE_SECONDS: Final = 30.0


class BudgetExceededError(Exception):
    """The amount was not available in time, or too many requests wait already."""


class FairBudget:
    """Grants amounts up to a total bound and a bound for each owner. Requests beyond them wait.

    Waiting owners take turns, one request each; requests of one owner are served in order. An owner without an amount gets any amount that
    fits into the total, and a single amount may have any size, so no request waits forever.

    The next owner keeps its turn while its request does not fit into the total, so small requests cannot overtake a large one forever.
    """

    def __init__(self, total: int, share: int, *, queue: int = 200, queues: int = 2000, patience: float = PATIENCE_SECONDS) -> None:
        """Create a budget without granted amounts.

        Args:
            total: the bound for all owners together.
            share: the bound for one owner.
            queue: the number of requests of one owner that may wait.
            queues: the total number of requests that may wait.
            patience: seconds that a request may wait.
        """
        self._total = total
        self._share = share
        self._queue = queue
        self._queues = queues
        self._patience = patience
        self._given: dict[str, int] = {}
        self._sum = 0
        # Requests by owner, in the order of the owners' turns.
        self._waiting: dict[str, deque[_Request]] = {}
        self._count = 0

    @property
    def given(self) -> int:
        """The sum of the granted amounts."""
        return self._sum

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return self._count

    def given_to(self, owner: str) -> int:
        """The amount that one owner has."""
        return self._given.get(owner, 0)

    async def acquire(self, owner: str, amount: int) -> None:
        """Wait until the amount is granted. Give it back with `release`.

        Raises:
            BudgetExceededError: the amount was not granted.
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
            # The task of a cancelled request may not have run yet.
            if not request.given.cancelled():
                self._give(owner, request.amount)
                request.given.set_result(None)

    def _next(self) -> str | None:
        """The owner whose request is granted next, or None if the next request does not fit."""
        for owner, queue in self._waiting.items():
            amount = queue[0].amount
            if self._is_share(owner, amount):
                return owner if self._is_room(amount) else None
        return None

    def _forget(self, owner: str, request: _Request) -> None:
        queue = self._waiting.get(owner)
        if queue is not None and request in queue:
            queue.remove(request)
            if not queue:
                del self._waiting[owner]
            self._count -= 1
        # Others may have waited behind this request.
        self._serve()


class _Request:
    __slots__ = ("amount", "given")

    def __init__(self, amount: int, given: asyncio.Future[None]) -> None:
        self.amount = amount
        self.given = given
