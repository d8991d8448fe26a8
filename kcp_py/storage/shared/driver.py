"""`SharedStorage`: the store of another process of this machine. Reads go to its file, everything else to the process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from kcp_py.storage.contract import Compare, Event, KeyValue, Operation, UnavailableError
from kcp_py.storage.feed import Changes, Feed
from kcp_py.storage.shared.client import Owner
from kcp_py.storage.shared.owner import Report, no_report
from kcp_py.storage.shared.revisions import SharedRevisions
from kcp_py.storage.sqlite.driver import HOT_BYTES, HOT_KEYS, PROGRESS_INTERVAL, SPAN_BYTES
from kcp_py.storage.sqlite.filereads import FileReads
from kcp_py.storage.sqlite.following import FollowedWrites, FollowingReader
from kcp_py.storage.sqlite.hot import HotKeys
from kcp_py.storage.validation import check_transaction
from kcp_py.storage.watched.position import Position

LONGEST_WAIT: Final = 5.0
"""Seconds for which the events of a revision are waited for that was read in the file."""


class SharedStorage(FileReads["_Parts"]):
    """A `Storage` whose file another process owns (`StorageServer`).

    It reads the file with connections of its own, where each commit of the owner is seen at once, and follows the owner's events. Caches
    are dropped by these events, and used when no later write can be read in the file.
    """

    compacts = False
    """The owner compacts the store."""

    def __init__(
        self,
        path: str | Path,
        connect: Callable[[], socket.socket],
        revisions: SharedRevisions,
        *,
        lost: Callable[[], None] | None = None,
        report: Report = no_report,
        progress_interval: float = PROGRESS_INTERVAL,
        hot_keys: int = HOT_KEYS,
        hot_bytes: int = HOT_BYTES,
        span_bytes: int = SPAN_BYTES,
    ) -> None:
        """Configure the store. It is connected when the context is entered.

        Args:
            path: the database file. The owner must have opened it.
            connect: a socket whose other end was given to `StorageServer.attach`.
            revisions: those that the owner sets.
            lost: called when the owner has gone. Writes and watches then fail for good.
            report: what this process tells the others of itself.
            progress_interval: as that of `SQLiteStorage`.
            hot_keys: as that of `SQLiteStorage`.
            hot_bytes: as that of `SQLiteStorage`.
            span_bytes: as that of `SQLiteStorage`.
        """
        self._path = path
        self._connect = connect
        self._revisions = revisions
        self._told_lost = lost
        self._report = report
        self._progress_interval = progress_interval
        super().__init__(hot_keys=hot_keys, hot_bytes=hot_bytes, span_bytes=span_bytes)

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        parts = self._opened()
        if parts.feed.revision < self._revisions.begun:
            return parts.reader.get(key)
        item = parts.hot.get(key)
        if item is None:
            item = parts.reader.get(key)
            # A later write may have become readable in between, whose event then still comes and drops it.
            if item is not None:
                parts.hot.remember(item)
        return item

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        owner = self._opened().owner
        check_transaction(compares, operations)
        return await owner.transact(compares, operations)

    async def revision(self) -> int:
        """`Storage.revision`. All events up to it have come, so that the cached ranges are right for it.

        Raises:
            UnavailableError: the events do not come.
        """
        parts = self._opened()
        if parts.feed.revision < max(self._revisions.begun, parts.reader.seen):
            state = parts.reader.state()
            self.range_cache.compacted(state.compact_revision)
            if not await parts.position.reached(max(state.revision, parts.reader.seen)):
                raise UnavailableError("the process that owns the store does not tell of its writes")
        return parts.feed.revision

    async def compact(self, revision: int) -> None:
        """`Storage.compact`, if the owner allows it."""
        await self._opened().owner.compact(revision)

    async def reports(self) -> list[bytes]:
        """The reports of the other processes that answer in time.

        Raises:
            UnavailableError: the owner has gone.
        """
        return await self._opened().owner.reports()

    async def check(self) -> None:
        """`Storage.check`."""
        parts = self._opened()
        await parts.owner.check()
        self.range_cache.compacted(parts.reader.state().compact_revision)

    @property
    def full(self) -> bool:
        """Whether the disk has room for deletions alone."""
        return self._revisions.full

    async def __aenter__(self) -> Self:
        if self._parts is not None:
            raise UnavailableError("the store is open already")
        parts = _Parts(self._path, self._publish, self._lost, self._report, progress_interval=self._progress_interval, hot=self._new_hot())
        try:
            await parts.owner.connect(self._connect())
        except BaseException:
            await parts.reader.close()
            raise
        self._parts = parts
        parts.owner.follow(parts.feed.revision + 1)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._parts is not None:
            parts, self._parts = self._parts, None
            parts.feed.close()
            await parts.owner.close()
            await parts.reader.close()
            self.range_cache.clear()

    def _publish(self, events: Sequence[Event], revision: int) -> None:
        parts = self._parts
        if parts is None or revision <= parts.feed.revision:
            return
        for event in events:
            parts.hot.writing(event.key)
            self.range_cache.writing(event.key, event.mod_revision)
            parts.writes.writing(event.key, event.mod_revision)
        parts.hot.committed()
        self.range_cache.committed()
        parts.writes.known = revision
        parts.feed.publish(events, revision)
        parts.position.advance(revision)

    def _lost(self) -> None:
        if self._parts is not None:
            self._parts.feed.close()
            self._parts.position.lose()
        if self._told_lost is not None:
            self._told_lost()


class _Parts:
    """The parts of an open store."""

    def __init__(
        self,
        path: str | Path,
        publish: Callable[[Sequence[Event], int], None],
        lost: Callable[[], None],
        report: Report,
        *,
        progress_interval: float,
        hot: HotKeys,
    ) -> None:
        self.hot = hot
        self.writes = FollowedWrites()
        self.reader = FollowingReader(path, self.writes)
        revision = self.reader.state().revision
        self.writes.begin(revision)
        self.feed = Feed(self._read_changes, revision=revision, progress_interval=progress_interval)
        self.owner = Owner(publish, lost, report)
        self.position = Position(request_progress=_nothing, patience=LONGEST_WAIT)
        self.position.begin(revision)

    async def _read_changes(self, prefix: str, after: int, until: int) -> Changes:
        changes = self.reader.changes(prefix, after, until)
        await asyncio.sleep(0)
        return changes


def _nothing() -> None:
    """The owner sends all events by itself."""
