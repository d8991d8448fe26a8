"""A TCP proxy that simulates failures of networks."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_CHUNK: Final = 1 << 16


class TcpProxy:
    """Forwards bytes between its clients and one port of this machine, until a failure is selected. Use it in one event loop.

    `cut` resets connections, `refuse` also resets new ones, `hold` delays bytes (packet loss with retransmission), `stall` drops bytes
    (packet loss without retransmission), `lose_reply` and `cuts_after` fail at a chosen byte. `resume` ends lasting failures.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._stalled = False
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._marker = b""
        self.cuts_after: list[int] = []
        """One entry per future connection: the bytes of answers that it forwards before it is cut. Later connections have no limit."""
        self.connections = 0
        """The number of accepted connections."""
        self.reply_lost = asyncio.Event()
        """Set when the request of `lose_reply` was forwarded."""

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the proxy is not started")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Reset all connections, and accept no more."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections. New ones are served."""
        for writer in self._writers:
            _reset(writer)
        self._writers.clear()
        self._marker = b""
        self.reply_lost.clear()

    def refuse(self) -> None:
        """Reset all connections, and all new ones from now on."""
        self._refusing = True
        self.cut()

    def hold(self) -> None:
        """Hold the bytes of current and future connections. `resume` forwards them."""
        self._flowing.clear()

    def stall(self) -> None:
        """Drop the bytes of current and future connections without closing them.

        `resume` resets the connections, because bytes are missing.
        """
        self._stalled = True

    def resume(self) -> None:
        """Forward all bytes again."""
        if self._stalled:
            self.cut()
        self._refusing = self._stalled = False
        self._flowing.set()

    def lose_reply(self, marker: bytes) -> None:
        """Forward the request that contains these bytes, but no answer after it."""
        self._marker = marker

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            _reset(writer)
            return
        limit = self.cuts_after.pop(0) if self.cuts_after else -1
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _reset(writer)
            return
        self._writers |= {writer, target_writer}
        for coroutine in (self._requests(reader, target_writer), self._answers(target_reader, writer, limit, target_writer)):
            task = asyncio.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._stalled:
                    continue
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
                if self._marker and self._marker in data:
                    self.reply_lost.set()
        writer.transport.abort()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int, target_writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._stalled or self.reply_lost.is_set():
                    continue
                await self._flowing.wait()
                if limit >= 0 and (limit := limit - len(data)) < 0:
                    break
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
        target_writer.transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    # A normal close would signal that all bytes were sent. With this option the peer receives an RST.
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
