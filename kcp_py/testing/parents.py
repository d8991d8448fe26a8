"""Noticing the end of the process for which a test server runs, and removing its files whatever its own end is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_INTERVAL: Final = 0.5
_PR_SET_PDEATHSIG: Final = 1
_STDIN: Final = 0


class Parent:
    """The process that a server runs for: its parent, or another one. Make it before the parent can end unnoticed."""

    def __init__(self, pid: int | None, *, started_by: int | None = None) -> None:
        """Choose the process.

        Args:
            pid: None for the parent.
            started_by: the parent at the start of this process; None for the present one.
        """
        self._pid = pid
        self._parent = os.getppid() if started_by is None else started_by

    def has_ended(self) -> bool:
        """Whether the process does not exist any more."""
        if self._pid is None:
            # In a container the first process has no parent that could end.
            return self._parent > 1 and os.getppid() != self._parent
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    async def ended(self) -> None:
        """Return when the process has ended.

        The kernel of Linux tells at once, elsewhere it takes half a second. A parent that started this process with a pipe as standard
        input also ends it by closing the pipe.
        """
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        with contextlib.ExitStack() as stack:
            if self._pid is None:
                if _send_signal_with_parent(signal.SIGUSR1):
                    # It also comes when only the thread of the parent ends that started this process: `has_ended` tells.
                    loop.add_signal_handler(signal.SIGUSR1, changed.set)
                    stack.callback(loop.remove_signal_handler, signal.SIGUSR1)
                if _is_open_pipe(_STDIN):
                    closed = asyncio.Event()

                    def end() -> None:
                        closed.set()
                        changed.set()

                    _on_end_of_file(loop, _STDIN, stack, end)
                    while not (closed.is_set() or self.has_ended()):
                        await _wait(changed)
                    return
            while not self.has_ended():
                await _wait(changed)


def remove_after_end(directory: Path) -> None:
    """Fork a process that waits for the end of this one, a kill included, and then removes a directory.

    Call it before there are threads. The process belongs to a session of its own: signals for this one do not reach it.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)
        os.set_inheritable(writer, False)
        return
    try:
        os.setsid()
        os.close(writer)
        # A parent that reads the output to its end does not wait for this process.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, reader)
        os.closerange(reader + 1, 256)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.read(reader, 1)
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os._exit(0)


async def _wait(changed: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(changed.wait(), _INTERVAL)
    changed.clear()


def _send_signal_with_parent(number: signal.Signals) -> bool:
    """Ask the kernel for a signal at the end of the parent; False where it knows no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - of Linux

    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _is_open_pipe(descriptor: int) -> bool:
    """Whether standard input is a pipe or a socket whose other end is open: not a terminal, a file or /dev/null."""
    import select  # noqa: PLC0415

    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return not poll.poll(0)


def _on_end_of_file(loop: asyncio.AbstractEventLoop, descriptor: int, stack: contextlib.ExitStack, ended: Callable[[], object]) -> None:
    blocking = os.get_blocking(descriptor)

    def read() -> None:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(descriptor)
            ended()

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, read)
    stack.callback(os.set_blocking, descriptor, blocking)
    stack.callback(loop.remove_reader, descriptor)
