"""Reserved disk space for deletions on a full disk.

A deletion writes, too: into the write-ahead log, and into history until it is compacted. On a completely full disk no object could be
deleted. Therefore a file next to the database reserves space, which is released when a write finds none. The released space is used for
deletions, for compaction and for small changes of objects, such as finalizers, without which many objects cannot be deleted. The file is
created again when the disk has space for one and a half times its size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_UNKNOWN: Final = 1 << 62


class Room:
    """The reserve of one database."""

    def __init__(self, database: str, size: int) -> None:
        """Configure the reserve. The file is not created yet.

        Args:
            database: the path.
            size: bytes; 0 for no reserve. Without a reserve a full disk is not detected.
        """
        self.database = database
        self._file = Path(f"{database}.reserve")
        self.size = size
        self._full = False
        self._told: Callable[[bool], object] | None = None

    @property
    def full(self) -> bool:
        """Whether the reserve was released and could not be created again."""
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        self._full = full
        if self._told is not None:
            self._told(full)

    def follow(self, told: Callable[[bool], object]) -> None:
        """Call a function with `full`, now and whenever it is set."""
        self._told = told
        told(self._full)

    @property
    def kept(self) -> bool:
        """Whether a reserve is configured."""
        return self.size > 0

    def make(self) -> bool:
        """Create the reserve, if half of its size remains free.

        Returns:
            Whether the reserve exists.
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
        """Release the reserve. Returns whether it existed."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def free(self) -> int:
        """Free bytes of the disk; a large number if it is unknown."""
        try:
            status = os.statvfs(self._file.parent)
        except OSError:
            return _UNKNOWN
        return status.f_bavail * status.f_frsize

    @property
    def missing(self) -> int:
        """Bytes of the reserve that are not allocated."""
        try:
            return max(0, self.size - self._file.stat().st_blocks * 512)
        except OSError:
            return self.size

    def leaves(self, size: int, *, deletes: bool, updates: bool, reusable: int) -> bool:
        """Whether a write is accepted while the disk is full.

        Args:
            size: the bytes of its values.
            deletes: whether it deletes a key.
            updates: whether every value replaces another one.
            reusable: free bytes inside the database.
        """
        if deletes:
            return True
        if self.free() < self.size // 2:
            return False
        return (updates and size <= self.size // 8) or 2 * size + self.size // 8 <= reusable
