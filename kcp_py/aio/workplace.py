"""`away_from_work`: who waits for the network leaves its work place to others in the meantime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Workplace(Protocol):
    """One of a bounded number of places for heavy work."""

    def rest(self) -> None:
        """Leave it for a while."""
        ...

    async def resume(self) -> None:
        """Return once there is room again."""
        ...


WORKPLACE: Final[ContextVar[Workplace | None]] = ContextVar("workplace", default=None)
"""The place that the current task works at; set where it is taken. One that was given back for good may remain: it cannot be resumed."""


@asynccontextmanager
async def away_from_work() -> AsyncIterator[None]:
    """Within it, the current task has no work place. After a failure it does not get it back, as its work is over."""
    place = WORKPLACE.get()
    if place is None:
        yield
        return
    place.rest()
    yield
    await place.resume()
