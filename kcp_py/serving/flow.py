"""Flow control of one connection: what must wait for the client, and what the client must wait for."""

from __future__ import annotations

import asyncio


class LazyEvent:
    """An `asyncio.Event` that is not made before a task waits for it, which most requests never do."""

    __slots__ = ("_event", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._event: asyncio.Event | None = None

    def set(self) -> None:
        """Wake the tasks that wait, and those that come later."""
        self.is_set = True
        if self._event is not None:
            self._event.set()

    def clear(self) -> None:
        """Let tasks wait again."""
        self.is_set = False
        if self._event is not None:
            self._event.clear()

    async def wait(self) -> None:
        """Return once the event is set."""
        if not self.is_set:
            if self._event is None:
                self._event = asyncio.Event()
            await self._event.wait()


class FlowControl:
    """Pauses reading from a transport, and the application where the client does not read.

    Attributes:
        read_paused: whether nothing is read now.
        write_paused: whether the transport takes no more.
    """

    __slots__ = ("_held", "_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = False
        self._writable = LazyEvent()
        self._writable.set()
        self.read_paused = False
        self.write_paused = False

    async def drain(self) -> None:
        """Return once the transport takes more."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless reading is held."""
        if self.read_paused and not self._held:
            self.read_paused = False
            self._transport.resume_reading()

    def hold(self) -> None:
        """Read nothing until `release`, whatever else happens."""
        self._held = True
        self.pause_reading()

    def release(self) -> None:
        """End `hold`."""
        self._held = False
        self.resume_reading()

    def pause_writing(self) -> None:
        """The transport takes no more."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """The transport takes more."""
        if self.write_paused:
            self.write_paused = False
            self._writable.set()
