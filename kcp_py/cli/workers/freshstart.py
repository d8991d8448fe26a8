"""`start_afresh`: the same program in the same process, with a fresh interpreter and a message from the one before.

An interpreter keeps the memory of all that it has imported. One that goes on as a small program gets rid of it only by starting again.
"""

from __future__ import annotations

import os
import sys

from kcp_py.cli.startedby import MESSAGE
from kcp_py.cli.workers.child import flush_output

_NAME = "/proc/self/comm"
"""The name of a process, which the kernel sets to that of the interpreter."""


def start_afresh(message: bytes) -> None:
    """Run the command line of this process again, which finds a message. Returns if that is not possible.

    The process id, the standard streams, the working directory, ignored signals and the role of a parent of orphans stay as they are.

    Args:
        message: for `received`.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return
    try:
        with open(_NAME, "rb") as file:  # noqa: PTH123 - the fresh program does without pathlib
            name = file.read()
        descriptor = os.memfd_create("kcp-py", 0)
    except (AttributeError, OSError):
        return
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(len(name).to_bytes(1, "little") + name + message)
        os.lseek(descriptor, 0, os.SEEK_SET)
        flush_output()
        environment = {**os.environ, MESSAGE: str(descriptor)}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - the program itself
    except OSError:
        os.close(descriptor)


def received() -> bytes:
    """The message of the interpreter before. The process has its name again, and its environment.

    Raises:
        OSError: there is none.
        ValueError: as above.
    """
    with os.fdopen(int(os.environ.pop(MESSAGE)), "rb") as file:
        content = file.read()
    with open(_NAME, "wb") as file:  # noqa: PTH123 - as above
        file.write(content[1 : content[0] + 1])
    return content[content[0] + 1 :]
