"""Reads of a file that another process writes: connections without the locks of the owner, and a record of its writes."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from kcp_py.storage.contract import KeyValue
from kcp_py.storage.sqlite.database import open_reading
from kcp_py.storage.sqlite.errors import translated
from kcp_py.storage.sqlite.reader import Reader
from kcp_py.storage.sqlite.recent import RecentWrites


class FollowedWrites(RecentWrites):
    """The latest writes of another process, by its events."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__(0)
        self.known = 0
        """All events up to this revision have come."""

    def begin(self, revision: int) -> None:
        """Record the revision after which all events come."""
        self.reset(revision)
        self.known = revision

    def misses(self, revision: int) -> bool:
        """`RecentWrites.misses`."""
        return revision > self.known


class _File:
    """A file that this process does not own."""

    def __init__(self, path: str | Path) -> None:
        self._path = os.path.realpath(path)

    def connect(self) -> apsw.Connection:
        """A connection that does not write, and leaves the log as it is."""
        return open_reading(self._path)


class FollowingReader(Reader):
    """All reads of a file that another process has open."""

    def __init__(self, path: str | Path, writes: RecentWrites) -> None:
        """Connect.

        Raises:
            StorageError: the file cannot be opened.
        """
        try:
            super().__init__(_File(path), writes)
        except apsw.Error as error:
            raise translated(error) from error

    async def get_at(self, key: str, revision: int, *, keys_only: bool) -> KeyValue | None:
        """`ReadsOldKeys.get_at`."""
        if not self._recent.may_be_newer(key, revision):
            before = self.state()
            if before.compact_revision <= revision <= before.revision and not self._recent.misses(before.revision):
                item = self.get(key)
                # The owner may have written in between.
                if self.state() == before:
                    return item
        return await self._range_at(key, revision, keys_only=keys_only)
