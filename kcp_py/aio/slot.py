"""`released_slot`: a task releases its slot for heavy work while it waits for the network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Slot(Protocol):
    """One of a bounded number of slots for heavy work."""

    def rest(self) -> None:
        """Release the slot temporarily."""
        ...

    async def resume(self) -> None:
        """Wait until a slot is free again, and take it."""
        ...


CURRENT_SLOT: Final[ContextVar[Slot | None]] = ContextVar("slot", default=None)
"""The slot of the current task, set when it is taken. It may still contain a slot that was returned and cannot be resumed."""


@asynccontextmanager
async def released_slot() -> AsyncIterator[None]:
    """Within this context, the current task has no slot. After a failure it does not take a slot again, because its work ended."""
    slot = CURRENT_SLOT.get()
    if slot is None:
        yield
        return
    slot.rest()
    yield
    await slot.resume()
