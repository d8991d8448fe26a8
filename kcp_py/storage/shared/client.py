"""`Owner`: the connection of a process to the one that owns the store."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Sequence

from kcp_py.storage.contract import Compare, Event, Operation, StorageError, UnavailableError, UnknownOutcomeError
from kcp_py.storage.shared import messages
from kcp_py.storage.shared.frames import Frames
from kcp_py.storage.shared.messages import Fields
from kcp_py.storage.shared.owner import Report, no_report

_GONE = "the process that owns the store has gone"


class Owner:
    """Requests to the owner, and its events. It is not connected again after it was lost: another owner has other processes."""

    def __init__(self, publish: Callable[[Sequence[Event], int], None], lost: Callable[[], None], report: Report = no_report) -> None:
        """Not connected yet.

        Args:
            publish: called with the events and the revision of each batch, in order, and never with a part of a revision.
            lost: called once, when the connection has ended and was not closed here.
            report: what this process tells the others of itself.
        """
        self._publish = publish
        self._told_lost = lost
        self._report = report
        self._reporting: set[asyncio.Task[None]] = set()
        self._collecting: dict[int, asyncio.Future[list[bytes]]] = {}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._events: list[Event] = []
        self._frames: Frames | None = None
        self._closed = asyncio.get_running_loop().create_future()
        self._is_closing = False

    async def connect(self, connected: socket.socket) -> None:
        """Use a connected socket."""
        self._frames = await Frames.over(connected, self._receive, self._lost)

    def follow(self, start_revision: int) -> None:
        """Ask for all events from a revision on."""
        self._send(messages.number_message(messages.FOLLOW, 0, start_revision))

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        number = next(self._numbers)
        try:
            return await self._ask(number, messages.transact_message(number, compares, operations))
        except asyncio.CancelledError:
            self._send(messages.number_message(messages.CANCEL, number))
            raise

    async def check(self) -> int:
        """`Storage.check`; the revision of the store."""
        number = next(self._numbers)
        return await self._ask(number, messages.number_message(messages.CHECK, number))

    async def reports(self) -> list[bytes]:
        """The reports of the other processes.

        Raises:
            UnavailableError: the owner has gone.
        """
        if self._is_closing or self._frames is None or not self._frames.is_open:
            raise UnavailableError(_GONE)
        number = next(self._numbers)
        future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._collecting[number] = future
        try:
            self._send(messages.number_message(messages.COLLECT, number))
            return await future
        finally:
            del self._collecting[number]

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        number = next(self._numbers)
        await self._ask(number, messages.number_message(messages.COMPACT, number, revision))

    async def close(self) -> None:
        """End the connection after the answers to all requests."""
        self._is_closing = True
        if self._waiting:
            await asyncio.wait(list(self._waiting.values()))
        if self._frames is not None and self._frames.is_open:
            self._frames.close()
            await self._closed

    def _send(self, data: bytes) -> None:
        if self._frames is not None:
            self._frames.send(data)

    async def _ask(self, number: int, data: bytes) -> int:
        if self._is_closing:
            raise UnavailableError("the store is closing")
        if self._frames is None or not self._frames.is_open:
            raise UnavailableError(_GONE)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._frames.send(data)
            return await future
        finally:
            del self._waiting[number]

    def _receive(self, kind: int, data: bytes) -> None:
        fields = Fields(data)
        match kind:
            case messages.EVENTS:
                revision, is_last, events = fields.events()
                self._events += events
                if is_last:
                    events, self._events = self._events, []
                    self._publish(events, revision)
            case messages.DONE:
                number, revision = fields.done()
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    future.set_result(revision)
            case messages.COLLECTED:
                number, reports = fields.reports()
                collecting = self._collecting.get(number)
                if collecting is not None and not collecting.done():
                    collecting.set_result(reports)
            case messages.ASK:
                task = asyncio.get_running_loop().create_task(self._tell(fields.number()))
                self._reporting.add(task)
                task.add_done_callback(self._reporting.discard)
            case messages.FAILED:
                number, error = fields.failed()
                self._fail(number, error)

    async def _tell(self, number: int) -> None:
        self._send(messages.reports_message(messages.REPORT, number, [await self._report()]))

    def _fail(self, number: int, error: StorageError) -> None:
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_exception(error)

    def _lost(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(UnknownOutcomeError(_GONE))
        for collecting in self._collecting.values():
            if not collecting.done():
                collecting.set_exception(UnavailableError(_GONE))
        if not self._closed.done():
            self._closed.set_result(None)
        if not self._is_closing:
            self._told_lost()
