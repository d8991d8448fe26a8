"""A connection on a wire in memory, with a clock of its own: bytes in, the requests that an application sees out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.server import ServerState

from kcp_py.serving.connection import Connection
from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.parsing import ParsingQueue
from tests.eventloop import until_idle

MOST = 10_000
HEAD_SECONDS = 32
IDLE_SECONDS = 90
HOST = b"host: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
REFUSED = b"POST /refuse HTTP/1.1\r\nhost: x\r\n"
NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
NEXT_SEEN = ("GET", "/next", [(b"host", b"x")], b"")


class Wire(asyncio.Transport):
    """A transport that keeps its writes, and whether reading is paused."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.paused = False
        self.ended = False
        self.closed = False

    def get_extra_info(self, name, default=None):
        del name
        return default

    def write(self, data):
        assert not self.ended
        self.written += data

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def close(self):
        self.closed = True

    abort = close

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def get_write_buffer_size(self):
        return 0


class Clock:
    """The running loop with timers that run when a test says so."""

    def __init__(self):
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self._timers: list[Timer] = []

    def __getattr__(self, name):
        return getattr(self._loop, name)

    def time(self):
        return self._now

    def call_later(self, delay, callback, *args):
        timer = Timer(self._now + delay, callback, args, self._timers)
        self._timers.append(timer)
        return timer

    def advance(self, seconds):
        """Let time pass."""
        until = self._now + seconds
        while due := [timer for timer in self._timers if timer.when <= until]:
            first = min(due, key=lambda timer: timer.when)
            self._timers.remove(first)
            self._now = first.when
            first.callback(*first.args)
        self._now = until


class Timer:
    def __init__(self, when, callback, args, timers):
        self.when = when
        self.callback = callback
        self.args = args
        self._timers = timers

    def cancel(self):
        if self in self._timers:
            self._timers.remove(self)


class Edge:
    """One connection to an application that reads each body and answers 200; `seen` has the requests, their headers as they are in the end.

    `turns` counts the turns in which large heads and long framing were parsed.
    Paths: `/refuse` answers before it reads, `/wait` before anything waits for `release`, `/stream` starts its answer and waits.
    """

    def __init__(self, *, max_head_bytes=MOST, head_budget=None):
        self.wire = Wire()
        self.clock = Clock()
        self.state = ServerState()
        self.seen: list[tuple[str, str, Any, bytes]] = []
        self.disconnects = 0
        self.left = 0
        self.release = asyncio.Event()
        self.turns = 0
        limits = ReadLimits(max_head_bytes=max_head_bytes, head_timeout=HEAD_SECONDS, idle_timeout=IDLE_SECONDS)
        loop: Any = self.clock
        state: Any = self.state
        self.context = ServerContext(self.app, state, limits, loop=loop)
        self.context.large_heads = ParsingQueue(call_later=self._turn_soon)
        self.context.long_framings = ParsingQueue(places=None, call_later=self._turn_soon)
        if head_budget is not None:
            self.context.head_budget = head_budget
        self.connection = Connection(self.context)
        self.connection.connection_made(self.wire)

    def _turn_soon(self, _seconds, take_turn):
        """Let the turns come one by one without a timer, so that the loop is busy until the last of them was taken."""
        self.turns += 1
        return asyncio.get_running_loop().call_soon(take_turn)

    async def app(self, scope, receive, send):
        body = b""
        more = True
        path = scope["path"]
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        if path == "/wait":
            await self.release.wait()
        if path == "/stream":
            await send({**start, "headers": []})
            await self.release.wait()
        while more and path not in {"/refuse", "/stream"}:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnects += 1
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append((scope["method"], path, scope["headers"], body))
        if path != "/stream":
            await send(start)
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(self, *reads):
        """Deliver bytes, each read when the connection reads, and let the application work."""
        for read in reads:
            await until_idle()
            if not self.wire.paused and not self.wire.closed:
                self.connection.data_received(read)
        await until_idle()
        return self

    async def close(self):
        self.connection.connection_lost(None)
        self.release.set()
        while self.state.tasks:
            await asyncio.wait(list(self.state.tasks))
            await asyncio.sleep(0)


def cut(data, cuts):
    """The bytes in reads of these sizes, and the rest in one."""
    reads, at = [], 0
    for size in cuts:
        reads.append(data[at : at + size])
        at += size
    return [read for read in (*reads, data[at:]) if read]
