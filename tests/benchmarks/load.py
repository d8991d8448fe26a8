"""The load generator: HTTP/1.1 over plain sockets or TLS, with as little work per request as Python allows."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast


@dataclass
class Result:
    """What a run measured."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    """Seconds each, in order of completion."""

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """A latency in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3


class Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time, answered in full."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._needed = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._needed < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            at = head.find(b"content-length:")
            if at < 0:
                self._needed = 0  # chunked: until the last chunk
            else:
                self._needed = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
        complete = self._buffer.endswith(b"0\r\n\r\n") if self._needed == 0 else len(self._buffer) >= self._needed
        if complete and self._waiting is not None:
            answer, self._buffer = bytes(self._buffer), bytearray()
            self._needed = -1
            waiting, self._waiting = self._waiting, None
            waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("the server closed the connection"))

    async def request(self, head: bytes, body: bytes = b"") -> bytes:
        """Send a request and return the whole answer, head included."""
        self._waiting = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._transport.write(head + body if body else head)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Stream(asyncio.Protocol):
    """One watch: counts what comes, and knows when it came last."""

    def __init__(self, head: bytes, on_line: Callable[[bytes], None] | None = None) -> None:
        self._head = head
        self._on_line = on_line
        self.opened = asyncio.get_running_loop().create_future()
        self.received = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
            data = data.partition(b"\r\n\r\n")[2]
        if data:
            self.received += data.count(b"}\n")
            if self._on_line is not None:
                self._on_line(data)


class EventDelays:
    """The times from sending writes to their events in watches. The names of the objects begin with `w`."""

    def __init__(self) -> None:
        self.sent: dict[bytes, float] = {}
        """Name without the `w` -> when its write was sent. Events remove it."""
        self.delays: list[float] = []
        """Seconds."""

    def on_line(self, data: bytes) -> None:
        """For `Target.stream`: events that have come."""
        now = time.perf_counter()
        for line in data.split(b"\n"):
            name = line.partition(b'"name":"w')[2].partition(b'"')[0]
            if name in self.sent:
                self.delays.append(now - self.sent.pop(name))

    async def wait(self) -> str:
        """Wait up to five seconds for the rest. Returns what to report of events that did not come."""
        end = time.monotonic() + 5
        while self.sent and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return f", {len(self.sent)} LOST" if self.sent else ""


class Target:
    """Where to send requests, and what every one of them carries."""

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None, token: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.port = port
        self._tls = tls
        credentials = {"Authorization": f"Bearer {token}"} if token else {"X-None": "1"}
        lines = {"Host": "localhost", "Accept": "application/json", **(headers or credentials)}
        self._common = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def head(self, method: str, path: str, length: int = 0, *, content_type: str = "application/json") -> bytes:
        """The request up to its body."""
        body = f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n" if length else ""
        return f"{method} {path} HTTP/1.1\r\n{self._common}{body}\r\n".encode()

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(Connection, "127.0.0.1", self.port, ssl=self._tls)
        return protocol

    async def stream(self, path: str, on_line: Callable[[bytes], None] | None = None) -> Stream:
        """Open a watch and wait for its headers."""
        head = self.head("GET", path)
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: Stream(head, on_line), "127.0.0.1", self.port, ssl=self._tls)
        await protocol.opened
        return protocol

    async def one(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A single request on a connection of its own."""
        connection = await self.connect()
        try:
            return await connection.request(self.head(method, path, len(body)), body)
        finally:
            connection.close()


async def run(target: Target, requests: Iterator[tuple[bytes, bytes]], *, connections: int, expect: bytes = b" 200 ") -> Result:
    """Send all requests over so many connections, each as fast as it is answered."""
    opened = [await target.connect() for _ in range(connections)]
    latencies: list[float] = []
    clock = time.perf_counter

    async def work(connection: Connection) -> None:
        for head, body in requests:
            start = clock()
            answer = await connection.request(head, body)
            latencies.append(clock() - start)
            if answer.find(expect, 0, 16) < 0:
                raise RuntimeError(answer[:400].decode(errors="replace"))

    start = clock()
    await asyncio.gather(*map(work, opened))
    seconds = clock() - start
    for connection in opened:
        connection.close()
    return Result(seconds, latencies)
