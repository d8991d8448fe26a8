"""`Deliveries`: passes events to subscribers that sleep, without waking a task of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, Protocol

from kcp_py.watchcache.event import ObjectEvent

_SLICE_SECONDS: Final = 0.003
"""After so much work on the event loop other tasks get a turn."""


class Subscriber(Protocol):
    """Writes events while the task of its watch sleeps."""

    def write(self, events: Sequence[ObjectEvent]) -> bool | None:
        """Write events, without waiting.

        Returns:
            True: they are written. False: the task of the watch has to do it. None: `prepare` has to be called first.
        """

    async def prepare(self, events: Sequence[ObjectEvent]) -> None:
        """Make what `write` needs and shares with other subscribers: the first one does it for all."""


class Recipient(Protocol):
    """A watcher."""

    def deliver(self) -> bool:
        """Have its subscriber write what has come. Returns False where `prepare` and another call are needed."""

    async def prepare(self) -> None:
        """Have its subscriber prepare what has come."""

    def wake(self) -> None:
        """Wake its task, which takes what has come."""


class Deliveries:
    """One task that delivers to all watchers that sleep and have got events. It lives while there are some.

    A task of each watcher, woken by a future, costs as much as the encryption and the system call of its write together. Events that come
    before the task has its turn are written together.
    """

    def __init__(self) -> None:
        """Begin without a task."""
        self._ready: dict[Recipient, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, watcher: Recipient) -> None:
        """Deliver to a watcher soon. It may be added already."""
        self._ready[watcher] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="deliver events to watches")

    async def _run(self) -> None:
        until = time.monotonic() + _SLICE_SECONDS
        try:
            while self._ready:
                ready, self._ready = self._ready, {}
                for watcher in ready:
                    try:
                        if not watcher.deliver():
                            await watcher.prepare()
                            if not watcher.deliver():
                                watcher.wake()
                    except Exception:  # noqa: BLE001 - the task of the watch meets the error again, and knows what to tell its client
                        watcher.wake()
                    if time.monotonic() >= until:
                        await asyncio.sleep(0)
                        until = time.monotonic() + _SLICE_SECONDS
        finally:
            self._task = None
