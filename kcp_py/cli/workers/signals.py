"""`signals_written_to`: signals that wait in a socket until the supervisor reads them."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def signals_written_to(waking: socket.socket) -> Iterator[None]:
    """Within it, signals that end a server, and those of children that end, write their number to a socket and do nothing else.

    SIGHUP counts unless this process ignores it, as under `nohup`.

    Args:
        waking: does not block, and is closed later: a signal that comes when it is closed is reported as an error.
    """
    before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD]
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    handlers = {number: signal.signal(number, _nothing) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)


def _nothing(_number: int, _frame: object) -> None:
    """A handler in Python is what has the number written."""
