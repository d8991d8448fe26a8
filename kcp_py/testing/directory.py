"""`PrivateDirectory`: a directory of one test server, which is gone when the server is."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"kcp-py-test-([0-9]{1,10})-[0-9a-f]{16}")
_YOUNG: Final = 60.0
"""Seconds during which a directory is left alone: its process may be about to lock it."""


class PrivateDirectory:
    """A directory for one process, created on first use and removed with `remove` or at the end of the process.

    A process that was forked from this one leaves it alone.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"kcp-py-test-{os.getpid()}-{secrets.token_hex(8)}"
        self._owner = os.getpid()
        self._made = False
        self._lock = -1

    def make(self) -> Path:
        """Create the directory with mode 0700, unless it has been created.

        Raises:
            OSError: it cannot be created.
        """
        if not self._made:
            self.path.mkdir(mode=0o700)
            self._made = True
            atexit.register(self.remove)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            # Not every file system has locks: the pid is there as well.
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            threading.Thread(target=sweep, args=(self.path.parent,), name="kcp-py-sweep", daemon=True).start()
        return self.path

    def remove(self) -> None:
        """Remove the directory with all files in it."""
        if self._made and os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            self._made = False
            os.close(self._lock)
            atexit.unregister(self.remove)


def sweep(parent: Path) -> None:
    """Remove the directories of processes of this user that were killed. What cannot be removed stays.

    A process of another container has a pid that means nothing here: the lock of its directory tells that it is alive.
    """
    with contextlib.suppress(OSError):
        for path in parent.iterdir():
            match = _NAME.fullmatch(path.name)
            if match is not None and _is_dead(int(match[1])):
                with contextlib.suppress(OSError):
                    _remove_abandoned(path)


def _is_dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def _remove_abandoned(path: Path) -> None:
    # A link in a directory that all may write into could lead anywhere.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        young = time.time() - found.st_mtime < _YOUNG
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700 and not young:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
