"""Excludes a second server from a database: by a lock file, which names the holder, and by a lock on the database file itself.

The second lock works for any name of the file (a hard link, another mount) and without the lock file. It is a lock of an open file
description on one byte far after the bytes that SQLite locks. It therefore neither conflicts with SQLite's own locks, which belong to the
process, nor is dropped with them when a descriptor of the file is closed, and other programs can read the database. Systems without such
locks (other than Linux) use only the lock file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from kcp_py.storage.sqlite.errors import LockedDatabaseError

_SET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
_BYTE: Final = (1 << 62) + 0x6B6370
"""SQLite locks bytes near 2**30."""
_LOG_EXPECTED: Final = "log"


class LockFile:
    """An advisory lock file next to the database. Its first line is the process id of the holder; it is empty after a clean end."""

    def __init__(self, path: str) -> None:
        """Take the lock of the database `path`.

        Raises:
            LockedDatabaseError: another holder has it.
            OSError: the file cannot be made.
        """
        self._path = Path(f"{path}.lock")
        self.made = not self._path.exists()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._lines()[0]
            os.close(self._descriptor)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise LockedDatabaseError(f"{path} is in use by {who}") from None
        except OSError:
            os.close(self._descriptor)
            raise
        self.log_expected = _LOG_EXPECTED in self._lines()[1:2]
        """Whether the last holder did not end cleanly and left a write-ahead log that contains acknowledged writes."""

    def hold(self, *, log_expected: bool = False) -> None:
        """Record this process, and whether the database must not be opened without its write-ahead log from now on.

        The record is durable, so that a start detects a log that a power failure removed.
        """
        text = f"{os.getpid()}\n{_LOG_EXPECTED if log_expected else ''}\n"
        # On a full disk the lock is valid without its text.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, text.encode(), 0)
            os.truncate(self._descriptor, len(text))
            os.fsync(self._descriptor)

    def release(self, *, remove: bool = False, clean: bool = True) -> None:
        """Release the lock.

        Args:
            remove: delete the file.
            clean: the next holder expects no log.
        """
        if remove:
            with contextlib.suppress(OSError):
                self._path.unlink()
        elif clean:
            os.truncate(self._descriptor, 0)
            with contextlib.suppress(OSError):
                os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _lines(self) -> list[str]:
        return os.pread(self._descriptor, 64, 0).decode("ascii", "replace").split("\n")


class FileLock:
    """A lock on the database file itself."""

    def __init__(self, path: str) -> None:
        """Acquire the lock. No connection of this process to the file may be open yet, and all must be closed before `release`.

        Raises:
            LockedDatabaseError: another holder has it, under this or another name.
            OSError: the file cannot be opened.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if _SET_LOCK is None:
            return
        wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _BYTE, 1, 0)
        try:
            fcntl.fcntl(self._descriptor, _SET_LOCK, wanted)
        except (BlockingIOError, PermissionError):
            os.close(self._descriptor)
            raise LockedDatabaseError(f"{path} is in use by another server, perhaps by another name of the file") from None
        except OSError:
            pass  # a file system without locks: only the lock file is used

    def names(self, path: str) -> bool:
        """Whether a path names the file that is locked."""
        try:
            return os.path.samestat(Path(path).stat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def sync(self) -> None:
        """Sync the file to the disk.

        Raises:
            OSError: some of it may not be there.
        """
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)
