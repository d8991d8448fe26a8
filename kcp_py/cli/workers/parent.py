"""`Parent`: how a process that serves talks with the supervisor that has forked it. `answer_questions`: the same before it serves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable

from kcp_py.cli.workers.child import ALIVE, ANNOUNCE, ASK, ATTACH, ENDING, READY


def answer_questions(channel: socket.socket) -> None:
    """Answer the supervisor that the event loop runs, until a `Parent` does. Called within the event loop."""
    channel.setblocking(False)
    loop = asyncio.get_running_loop()

    def receive() -> None:
        try:
            message = channel.recv(1)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if message == ASK:
            _send(channel, ALIVE)
        else:
            loop.remove_reader(channel)

    loop.add_reader(channel, receive)


class Parent:
    """The channel to the supervisor, within the event loop."""

    def __init__(self, channel: socket.socket, *, attach: Callable[[socket.socket], object], announce: Callable[[], object]) -> None:
        """Listen to the supervisor and to SIGTERM.

        Args:
            channel: a stream socket.
            attach: called with the socket of another process.
            announce: called when all processes serve for the first time.
        """
        self.stop = asyncio.Event()
        """Set when this process has to end."""
        self._channel = channel
        self._attach = attach
        self._announce = announce
        self._loop = asyncio.get_running_loop()
        channel.setblocking(False)
        self._loop.add_reader(channel, self._receive)
        self._loop.add_signal_handler(signal.SIGTERM, self.end)

    def ready(self) -> None:
        """Tell the supervisor that this process serves."""
        _send(self._channel, READY)

    def end(self) -> None:
        """End this process in order."""
        if not self.stop.is_set():
            self.stop.set()
            _send(self._channel, ENDING)

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._channel)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def _receive(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = b"", []
        match message:
            case b"":
                self._loop.remove_reader(self._channel)
                self.end()
            case _ if message == ATTACH and descriptors:
                self._attach(socket.socket(fileno=descriptors[0]))
            case _ if message == ANNOUNCE:
                self._announce()
            case _ if message == ASK:
                _send(self._channel, ALIVE)


def _send(channel: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):
        channel.send(message)
