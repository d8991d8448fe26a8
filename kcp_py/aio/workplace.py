"""`away_from_work`: a task releases its place for heavy work while it waits for the network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Workplace(Protocol):
    """One of a bounded number of places for heavy work."""

    def rest(self) -> None:
        """Release the place temporarily."""
        ...

    async def resume(self) -> None:
        """Wait until a place is free again, and take it."""
        ...


WORKPLACE: Final[ContextVar[Workplace | None]] = ContextVar("workplace", default=None)
"""The place of the current task, set when it is taken. It may still contain a place that was returned and cannot be resumed."""


@asynccontextmanager
async def away_from_work() -> AsyncIterator[None]:
    """Within this context, the current task has no place. After a failure it does not take the place again, because its work ended."""
    place = WORKPLACE.get()
    if place is None:
        yield
        return
    place.rest()
    yield
    await place.resume()
