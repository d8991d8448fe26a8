"""`start_afresh`: the same program in the same process, with a fresh interpreter and a message from the one before.

An interpreter keeps the memory of all that it has imported. One that goes on as a small program gets rid of it only by starting again.
"""

from __future__ import annotations

import contextlib
import os
import sys

from kcp_py.cli.startedby import MESSAGE
from kcp_py.cli.workers.child import flush_output

_NAME = "/proc/self/comm"
"""The name of a process, which the kernel sets to that of the interpreter."""
_FILE = "kcp-py"
"""The name of the file in memory that has the message."""
_LINK = f"/memfd:{_FILE} (deleted)"
"""The target of the link in `/proc/self/fd` to this file."""


def start_afresh(message: bytes) -> None:
    """Run the command line of this process again, which finds a message. Returns if that is not possible.

    The process id, the standard streams, the working directory, ignored signals and the role of a parent of orphans stay as they are.

    Args:
        message: for `received`.
    """
    if not sys.executable or getattr(sys, "frozen", False) or _is_read_once(sys.argv[0]):
        return
    try:
        with open(_NAME, "rb") as file:  # noqa: PTH123 - the fresh program does without pathlib
            name = file.read()
        descriptor = os.memfd_create(_FILE, 0)
    except (AttributeError, OSError):
        return
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(len(name).to_bytes(1, "little") + name + message)
        os.lseek(descriptor, 0, os.SEEK_SET)
        flush_output()
        environment = {**os.environ, MESSAGE: f"{os.getpid()}:{descriptor}"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - the program itself
    except OSError:
        os.close(descriptor)


def _is_read_once(program: str) -> bool:
    """Whether a program was read from a stream, which has ended."""
    return program in {"", "-"} or program.startswith("/dev/")


def received() -> bytes | None:
    """The message of the interpreter before. The process has its name again, and its environment.

    Returns:
        None if there is none: the environment is that of another process, or names a file that `start_afresh` did not make. The file stays
        as it is.
    """
    pid, _, descriptor = os.environ.pop(MESSAGE, "").partition(":")
    if pid != str(os.getpid()):
        return None
    try:
        if os.readlink(f"/proc/self/fd/{descriptor}") != _LINK:  # noqa: PTH115 - as above
            return None
        with os.fdopen(int(descriptor), "rb") as file:
            content = file.read()
    except (OSError, ValueError):
        return None
    # It may be read-only, as all of /proc is in some containers.
    with contextlib.suppress(OSError), open(_NAME, "wb") as name:  # noqa: PTH123 - as above
        name.write(content[1 : content[0] + 1])
    return content[content[0] + 1 :]
