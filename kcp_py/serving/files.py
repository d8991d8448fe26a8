"""Writing files so that a reader, or a crash, never sees half of one."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Create the directory and its parents; the directory itself gets mode 0700. One that exists keeps its mode.

    Raises:
        OSError: it cannot be created, or something else has its name.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except FileExistsError as error:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None


def write_private_file(path: Path, content: bytes, *, replace: bool = True, durable: bool = True) -> None:
    """Write a file in one step, with mode 0600.

    Args:
        path: the file.
        content: all of it.
        replace: take the place of a file that exists.
        durable: return when it would outlive a power cut, which takes some milliseconds.

    Raises:
        FileExistsError: the file exists and is not to be replaced.
        OSError: the directory is missing or cannot be written; the old file is then untouched.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if replace:
            Path(temporary).replace(path)
        else:
            path.hardlink_to(temporary)  # the one way to put a complete file where no other may be
            Path(temporary).unlink()
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if not durable:
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
