"""`released_slot`: a task releases its slots, for heavy work and among the requests that run, while it waits for the network."""

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


REQUEST_SLOT: Final[ContextVar[Slot | None]] = ContextVar("request slot", default=None)
"""The place of the current request among those that run at a time. It is another bound than that of heavy work."""


@asynccontextmanager
async def released_slot() -> AsyncIterator[None]:
    """Within this context, the current task has no slots. After a failure it does not take them again, because its work ended."""
    slots = [slot for slot in (REQUEST_SLOT.get(), CURRENT_SLOT.get()) if slot is not None]
    for slot in slots:
        slot.rest()
    yield
    for slot in slots:
        await slot.resume()
