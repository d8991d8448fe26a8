"""Room on the disk that is kept back, so that a full disk still has some for what makes room.

A delete writes, too: into the write-ahead log, and into history until that is compacted. On a disk that is quite full nothing could be
deleted. So a file beside the database holds room that is given up when a write finds none. What is left then is for deletions, for
compaction and for small changes of objects, such as finalizers, without which many objects cannot be deleted. The file is made again when
there is room for it and half as much.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_UNKNOWN: Final = 1 << 62


class Room:
    """The reserve of one database."""

    def __init__(self, database: str, size: int) -> None:
        """Name the file; nothing is made yet.

        Args:
            database: the path.
            size: bytes; 0 for no reserve, with which a full disk is never known as such.
        """
        self.database = database
        self._file = Path(f"{database}.reserve")
        self.size = size
        self.full = False
        """Whether the reserve had to be given up and could not be made again."""

    @property
    def kept(self) -> bool:
        """Whether there is to be a reserve."""
        return self.size > 0

    def make(self) -> bool:
        """Set the room aside, if half as much is left then.

        Returns:
            Whether it is.
        """
        if not self.size:
            return True
        try:
            missing = self.missing
            if missing and self.free() < missing + self.size // 2:
                return False
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self.size)
                os.truncate(descriptor, self.size)
            finally:
                os.close(descriptor)
        except OSError:
            self.give_up()
            return False
        return True

    def give_up(self) -> bool:
        """Let the disk have it; returns whether there was any."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def free(self) -> int:
        """Bytes of the disk that can be written; many where that cannot be told."""
        try:
            status = os.statvfs(self._file.parent)
        except OSError:
            return _UNKNOWN
        return status.f_bavail * status.f_frsize

    @property
    def missing(self) -> int:
        """Bytes of the reserve that are not set aside."""
        try:
            return max(0, self.size - self._file.stat().st_blocks * 512)
        except OSError:
            return self.size

    def leaves(self, size: int, *, deletes: bool, updates: bool, reusable: int) -> bool:
        """Whether a write is taken while the disk is full.

        Args:
            size: bytes of its values.
            deletes: something is deleted.
            updates: every value replaces one.
            reusable: bytes inside of the database that hold nothing any more.
        """
        if deletes:
            return True
        if self.free() < self.size // 2:
            return False
        return (updates and size <= self.size // 8) or 2 * size + self.size // 8 <= reusable
