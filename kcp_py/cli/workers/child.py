"""What the supervisor and its processes say to each other, and the first steps of a process that was just forked.

The supervisor imports this module, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

OWNER: Final = "owner"

READY: Final = b"R"
"""From a process: it serves."""
ENDING: Final = b"E"
"""From a process: it ends, because of a signal or because of the owner's end."""
ALIVE: Final = b"L"
"""From a process: its event loop has read `ASK`."""
ASK: Final = b"?"
"""To a process: answer with `ALIVE`."""
ATTACH: Final = b"A"
"""To the owner, with a socket: another process uses the store over it."""
ANNOUNCE: Final = b"S"
"""To the owner: all processes serve for the first time."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Process(NamedTuple):
    """One of the processes, over all its lives."""

    name: str
    number: int
    """From 0 on, which is the owner."""


def process_of(number: int) -> Process:
    """The process with a number."""
    return Process(OWNER if number == 0 else f"worker-{number}", number)


def become_child(supervisor: int) -> None:
    """Prepare a process that was just forked: it ends with the supervisor, and in order on SIGTERM alone.

    A terminal sends SIGINT and SIGHUP to all of its processes, and the supervisor passes them on as SIGTERM.

    Args:
        supervisor: the process id of the parent.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        # Also where the event loop hangs, and does not see that the channel has ended.
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != supervisor:
        os._exit(1)


def adopt_orphans() -> bool:
    """Become the parent of processes whose parent ends and descends from this process (Linux); whether that is possible."""
    return sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def run_child(run: Callable[[], int]) -> NoReturn:
    """Run a process that was just forked, to its end."""
    code = 1
    try:
        code = run()
    except BaseException as error:  # noqa: BLE001 - the process is a copy, which must not go on as the supervisor
        code = _show(error)
    finally:
        flush_output()
        os._exit(code)


def _show(error: BaseException) -> int:
    """Print an error that ends a process. Returns the exit code."""
    import traceback

    import click

    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    traceback.print_exception(error)
    return 1


def flush_output() -> None:
    """Write what this process has printed, before a fork copies it or the process ends."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()


def _prctl(option: int, value: int) -> bool:
    import ctypes

    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False
