"""`Toggle`: a switch that tasks can wait for, in both directions."""

from __future__ import annotations

import asyncio


class Toggle:
    """On or off. Waiters of a direction are woken once it is reached, even if it is left again before they run."""

    def __init__(self, *, on: bool = False) -> None:
        self._on = on
        self._waiters: dict[bool, set[asyncio.Future[None]]] = {True: set(), False: set()}

    def __bool__(self) -> bool:
        return self._on

    def turn(self, *, on: bool) -> None:
        """Switch; nothing happens if that is how it stands."""
        if self._on is on:
            return
        self._on = on
        waiters, self._waiters[on] = self._waiters[on], set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for(self, *, on: bool) -> None:
        """Return once it stands so."""
        if self._on is on:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[on].add(waiter)
        try:
            await waiter
        finally:
            self._waiters[on].discard(waiter)
