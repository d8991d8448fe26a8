"""`Parent`: how a process that serves talks with the supervisor that has forked it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

READY: Final = b"R"
"""From a process: it serves."""
ENDING: Final = b"E"
"""From a process: it ends, because of a signal or because of the owner's end."""
ATTACH: Final = b"A"
"""To the owner, with a socket: another process uses the store over it."""
ANNOUNCE: Final = b"S"
"""To the owner: all processes serve for the first time."""

_PR_SET_PDEATHSIG: Final = 1


def become_child(supervisor: int) -> None:
    """Prepare a process that was just forked: it ends with the supervisor, and in order on SIGTERM alone.

    A terminal sends SIGINT and SIGHUP to all of its processes, and the supervisor passes them on as SIGTERM.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        # Also where the event loop hangs, and does not see that the channel has ended.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)


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
        self._send(READY)

    def end(self) -> None:
        """End this process in order."""
        if not self.stop.is_set():
            self.stop.set()
            self._send(ENDING)

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._channel)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(message)

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
