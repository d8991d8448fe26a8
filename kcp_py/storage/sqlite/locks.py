"""Keeps a second server off a database: by a file beside it, which names the holder, and by a lock on the database file itself.

The second lock holds whatever name the file is opened by (a hard link, another mount) and whether or not the file beside it is still there.
It is a lock of an open file description on one byte far behind the bytes that SQLite locks. So it neither meets SQLite's own locks, which
belong to the process, nor is dropped with them when any descriptor of the file is closed; and foreign programs can read the database
meanwhile. Systems without such locks (other than Linux) have the file beside only.
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
    """An advisory lock beside the database. Its first line is the holder's process id; it is empty after a clean end."""

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
        """The last holder did not end cleanly, and left a write-ahead log without which acknowledged writes are lost."""

    def hold(self, *, log_expected: bool = False) -> None:
        """Name this process, and say whether the database must not be opened without its write-ahead log from now on.

        That is durable: a log that a power failure took away is missed, and one that was removed before is not.
        """
        text = f"{os.getpid()}\n{_LOG_EXPECTED if log_expected else ''}\n"
        # On a full disk the lock holds without its text.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, text.encode(), 0)
            os.truncate(self._descriptor, len(text))
            os.fsync(self._descriptor)

    def release(self, *, remove: bool = False, clean: bool = True) -> None:
        """Give the lock up.

        Args:
            remove: take the file away.
            clean: nothing is expected by the next holder.
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
        """Take it. No connection of this process to the file may be open yet, and all must be closed before `release`.

        Raises:
            LockedDatabaseError: another holder has it, by whatever name.
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
            pass  # a file system without locks: the file beside has to do

    def names(self, path: str) -> bool:
        """Whether a path names the file that is locked."""
        try:
            return os.path.samestat(Path(path).stat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def sync(self) -> None:
        """Bring the file to the disk.

        Raises:
            OSError: some of it may not be there.
        """
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Give it up."""
        os.close(self._descriptor)
