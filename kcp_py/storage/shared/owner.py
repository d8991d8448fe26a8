"""`StorageServer`: serves the store of this process to other processes of the machine."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, Self

import structlog

from kcp_py.storage.contract import Event, Storage, StorageError, UnavailableError
from kcp_py.storage.shared import messages
from kcp_py.storage.shared.frames import Frames
from kcp_py.storage.shared.messages import Fields

EVENTS_PER_MESSAGE: Final = 256
"""Events that are encoded, and decoded, in one turn of the event loop."""
BYTES_PER_MESSAGE: Final = 1 << 20
"""Bytes of values with which a message of events ends."""

LONGEST_REPORT: Final = 2.0
"""Seconds after which the report of a process is left out."""

Report = Callable[[], Awaitable[bytes]]
"""What a process tells the others of itself, such as its metrics. The store does not look at it."""

_log: Final = structlog.get_logger("kcp_py.storage")


async def no_report() -> bytes:
    """Nothing to tell."""
    return b""


class StorageServer:
    """The contract of a store, over one stream socket for each other process.

    Compaction is left to the owner: a request for it is refused unless it is allowed.
    """

    def __init__(self, storage: Storage, *, allow_compaction: bool = False, report: Report = no_report) -> None:
        """Serve nothing yet.

        Args:
            storage: the store, which is open.
            allow_compaction: whether other processes may compact it.
            report: what this process tells the others of itself. May raise nothing.
        """
        self._storage = storage
        self._report = report
        self._allow_compaction = allow_compaction
        self._clients: set[_Client] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    @property
    def clients(self) -> int:
        """The number of processes that are connected."""
        return len(self._clients)

    async def attach(self, connected: socket.socket) -> None:
        """Serve the process at the other end of a socket until it goes. The socket is closed at the end."""
        client = _Client(self)
        self._clients.add(client)
        self._none_left.clear()
        try:
            await client.connect(connected)
        except BaseException:
            self.gone(client)
            raise

    async def reports(self, *, asked_by: _Client | None = None) -> list[bytes]:
        """The reports of the other processes; of all that answer in time.

        Args:
            asked_by: the process that asks, which then gets that of this process in place of its own.
        """
        waiting = [asyncio.ensure_future(client.report()) for client in self._clients if client is not asked_by]
        own = [] if asked_by is None else [await self._report()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=LONGEST_REPORT)
            for one in late:
                one.cancel()
        return own + [one.result() for one in waiting if one.done()]

    async def drained(self) -> None:
        """Return when no process is connected."""
        await self._none_left.wait()

    def gone(self, client: _Client) -> None:
        """Forget a process."""
        self._clients.discard(client)
        if not self._clients:
            self._none_left.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for client in list(self._clients):
            await client.close()

    # What clients ask for

    async def transact(self, fields: Fields) -> bytes:
        """Answer `TRANSACT`."""
        number, compares, operations = fields.transaction()
        return await self._answer(number, self._storage.transact(compares, operations))

    async def check(self, fields: Fields) -> bytes:
        """Answer `CHECK`."""
        return await self._answer(fields.number(), self._check())

    async def compact(self, fields: Fields) -> bytes:
        """Answer `COMPACT`."""
        number, revision = fields.number(), fields.number()
        return await self._answer(number, self._compact(revision))

    async def collect(self, fields: Fields, client: _Client) -> bytes:
        """Answer `COLLECT`."""
        return messages.reports_message(messages.COLLECTED, fields.number(), await self.reports(asked_by=client))

    async def _check(self) -> int:
        await self._storage.check()
        return await self._storage.revision()

    async def _compact(self, revision: int) -> int:
        if not self._allow_compaction:
            raise StorageError("the process that owns the store compacts it")
        await self._storage.compact(revision)
        return revision

    async def _answer(self, number: int, work: Coroutine[Any, Any, int]) -> bytes:
        try:
            return messages.done_message(number, await work)
        except StorageError as error:
            return messages.failed_message(number, error)
        except Exception as error:  # noqa: BLE001 - logged; the caller is in another process, and must get an answer
            _log.exception("storage_request_failed")
            return messages.failed_message(number, StorageError(f"{type(error).__name__}: {error}"))

    async def follow(self, frames: Frames, fields: Fields) -> None:
        """Carry out `FOLLOW` until the process goes, or the store cannot tell what happened."""
        number, start_revision = fields.number(), fields.number()
        try:
            async with aclosing(self._storage.watch("", start_revision=start_revision)) as batches:
                async for batch in batches:
                    events, size, part = batch.events, 0, list[Event]()
                    for event in events:
                        part.append(event)
                        size += len(event.value or b"") + (len(event.previous.value) if event.previous is not None else 0)
                        if len(part) >= EVENTS_PER_MESSAGE or size >= BYTES_PER_MESSAGE:
                            frames.send(messages.events_message(part, batch.revision, is_last=False))
                            size, part = 0, []
                            await frames.drained()
                            await asyncio.sleep(0)
                    frames.send(messages.events_message(part, batch.revision, is_last=True))
                    await frames.drained()
        except StorageError as error:
            frames.send(messages.failed_message(number, error))
        finally:
            # A process without events would answer from what it knew before.
            frames.close()


class _Client:
    """One other process."""

    def __init__(self, server: StorageServer) -> None:
        self._server = server
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._following: asyncio.Task[None] | None = None
        self._frames: Frames | None = None
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._questions = itertools.count(1)

    async def connect(self, connected: socket.socket) -> None:
        self._frames = await Frames.over(connected, self._receive, self._lost)

    async def close(self) -> None:
        """End the connection, and wait for the transactions that run."""
        tasks = [task for task in (*self._tasks.values(), self._following) if task is not None]
        if self._frames is not None:
            self._frames.close()
        if self._following is not None:
            self._following.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._server.gone(self)

    async def report(self) -> bytes:
        """The report of the process."""
        assert self._frames is not None
        number = next(self._questions)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self._frames.send(messages.number_message(messages.ASK, number))
            return await future
        finally:
            self._asked.pop(number, None)

    def _receive(self, kind: int, data: bytes) -> None:
        assert self._frames is not None
        fields = Fields(data)
        match kind:
            case messages.TRANSACT:
                self._run(data, self._server.transact(fields))
            case messages.CHECK:
                self._run(data, self._server.check(fields))
            case messages.COMPACT:
                self._run(data, self._server.compact(fields))
            case messages.CANCEL:
                task = self._tasks.get(fields.number())
                if task is not None:
                    task.cancel()
            case messages.COLLECT:
                self._run(data, self._server.collect(fields, self))
            case messages.REPORT:
                number, reports = fields.reports()
                future = self._asked.pop(number, None)
                if future is not None and not future.done():
                    future.set_result(b"".join(reports))
            case messages.FOLLOW if self._following is None:
                self._following = asyncio.get_running_loop().create_task(self._server.follow(self._frames, fields))
            case _:
                self._frames.close()

    def _run(self, data: bytes, work: Coroutine[Any, Any, bytes]) -> None:
        number = Fields(data).number()
        task = self._tasks[number] = asyncio.get_running_loop().create_task(self._reply(number, work))
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _reply(self, number: int, work: Coroutine[Any, Any, bytes]) -> None:
        assert self._frames is not None
        try:
            answer = await work
        except asyncio.CancelledError:
            answer = messages.failed_message(number, UnavailableError("the caller has gone"))
        self._frames.send(answer)

    def _lost(self) -> None:
        # Transactions that have begun are carried out: their outcome is unknown to the process that has gone.
        if self._following is not None:
            self._following.cancel()
        self._server.gone(self)
