"""A storage driver for PostgreSQL 12 or newer: several servers may share one database.

    async with ControlPlane(Options(), storage=PostgreSQLStorage("postgresql://kcp@db/kcp")) as control_plane:

It needs `pip install asyncpg`. One row counts revisions. A transaction locks it, so revisions become visible in order, and reads need
no lock. `kcp_versions` has each version of each key until it is compacted; the row of a deletion has no value. Writes announce themselves
by NOTIFY, and watches read the changes. `kcp_py.storage.contract` has the rules, `kcp_py.testing.storage_suite` checks them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

import asyncpg

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    CompactedError,
    Compare,
    ConflictError,
    Event,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Operation,
    Put,
    RangeResult,
    UnavailableError,
    UnknownOutcomeError,
    WatchBatch,
    fitting,
    prefix_end,
)

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS kcp_store (one bool PRIMARY KEY DEFAULT true CHECK (one), revision bigint NOT NULL, compacted bigint NOT NULL);
INSERT INTO kcp_store (revision, compacted) VALUES (0, 0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS kcp_versions (
  key text COLLATE "C" NOT NULL, revision bigint NOT NULL, ordinal int NOT NULL, created bigint NOT NULL, value bytea, replaced bigint,
  PRIMARY KEY (key, revision));
CREATE UNIQUE INDEX IF NOT EXISTS kcp_current ON kcp_versions (key) WHERE replaced IS NULL;
CREATE INDEX IF NOT EXISTS kcp_changes ON kcp_versions (revision);
CREATE INDEX IF NOT EXISTS kcp_replaced ON kcp_versions (replaced) WHERE replaced IS NOT NULL;
"""
ONE_START: Final = "SELECT pg_advisory_xact_lock(7241639)"
"""Servers that start together create the tables one after the other."""
CURRENT: Final = "SELECT key, value, revision, created FROM kcp_versions WHERE key = ANY($1) AND replaced IS NULL AND value IS NOT NULL"
RANGE: Final = """
SELECT s.revision AS present, s.compacted, v.*, {count} AS total FROM kcp_store s LEFT JOIN LATERAL (
  SELECT key, {value} AS value, revision, created FROM kcp_versions WHERE {present} AND key >= $2 ORDER BY key LIMIT $4) v ON true
"""
"""One statement sees one state of the database. `$1`, `$3`: where the keys begin and end; `$2`: the first one of the page."""
PRESENT: Final = "key >= $1 AND ($3 = '' OR key < $3) AND replaced IS NULL AND value IS NOT NULL"
PAST: Final = (
    "key >= $1 AND ($3 = '' OR key < $3) AND value IS NOT NULL AND kcp_versions.revision <= $5 AND (replaced IS NULL OR replaced > $5)"
)
CHANGES: Final = """
SELECT s.revision AS present, s.compacted, v.* FROM kcp_store s LEFT JOIN LATERAL (
  SELECT n.key, n.value, n.revision, n.created, o.value AS old, o.revision AS old_revision, o.created AS old_created
  FROM kcp_versions n LEFT JOIN kcp_versions o ON o.key = n.key AND o.replaced = n.revision AND o.value IS NOT NULL
  WHERE n.key >= $1 AND ($2 = '' OR n.key < $2) AND n.revision > $3 ORDER BY n.revision, n.ordinal LIMIT $4) v ON true
"""
INSERT: Final = """
INSERT INTO kcp_versions (key, created, value, ordinal, revision)
SELECT *, $4 FROM unnest($1::text[], $2::bigint[], $3::bytea[]) WITH ORDINALITY
"""
COMPACT: Final = """
DELETE FROM kcp_versions WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM kcp_versions WHERE replaced <= $1 OR (replaced IS NULL AND value IS NULL AND revision <= $1) LIMIT 1000))
"""
CHANNEL: Final = "kcp"
LARGEST_NUMBER: Final = 2**63 - 1
LARGEST_TRANSACTION: Final = 500
POLL_SECONDS: Final = 5.0
"""Watches look for themselves so often, in case that a notification was lost with its connection."""


class PostgreSQLStorage:
    """A `Storage` in a database of PostgreSQL whose encoding is UTF-8."""

    def __init__(self, url: str, *, connections: int = 8) -> None:
        """Connect when the context is entered. `url` is `postgresql://user:password@host/database`."""
        self._url = url
        self._connections = connections
        self._changed = asyncio.Event()
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        with _translated(UnavailableError):
            self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=self._connections)
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(ONE_START)
                await connection.execute(SCHEMA)
        self._closing = False
        self._start(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing = True
        self._wake()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        return next(iter([_item(row) for row in await self._fetch(CURRENT, [key])]), None)

    async def range(
        self,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        revision: int = 0,
        count: bool = False,
        keys_only: bool = False,
        max_bytes: int = LARGEST_PAGE_BYTES,
    ) -> RangeResult:
        """`Storage.range`."""
        present = PAST if revision else PRESENT
        counted = f"(SELECT count(*) FROM kcp_versions WHERE {present} AND key >= $2)" if count else "-1"  # noqa: S608 - constants
        statement = RANGE.format(count=counted, value="''::bytea" if keys_only else "value", present=present)
        end = prefix_end(prefix) if prefix else ""
        past = (revision,) if revision else ()
        rows = await self._fetch(statement, prefix, max(prefix, start), end, min(limit + 1, LARGEST_NUMBER) if limit else None, *past)
        first = rows[0]
        if revision > first["present"]:
            raise FutureRevisionError(revision, first["present"])
        if revision and revision < first["compacted"]:
            raise CompactedError(revision, first["compacted"])
        items = [_item(row) for row in rows if row["key"] is not None]
        page = items[: fitting(items[:limit], max_bytes)] if limit else items
        return RangeResult(page, revision or first["present"], len(page) < len(items), first["total"])

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        if len(operations) > LARGEST_TRANSACTION:
            raise ValueError(f"a transaction has at most {LARGEST_TRANSACTION} operations")
        keys = [part.key for part in (*compares, *operations)]
        with _translated(UnknownOutcomeError):
            async with self._pool.acquire() as connection, connection.transaction():
                revision = int(await connection.fetchval("SELECT revision FROM kcp_store FOR UPDATE"))
                current = {row["key"]: _item(row) for row in await connection.fetch(CURRENT, keys)}
                for compare in compares:
                    _check(compare, current.get(compare.key))
                changes = [one for one in operations if isinstance(one, Put) or one.key in current]
                if not changes:
                    return revision
                revision += 1
                changed = [one.key for one in changes]
                created = [current[key].create_revision if key in current else revision for key in changed]
                values = [one.value if isinstance(one, Put) else None for one in changes]
                await connection.execute(
                    "UPDATE kcp_versions SET replaced = $1 WHERE key = ANY($2) AND replaced IS NULL", revision, changed
                )
                await connection.execute(INSERT, changed, created, values, revision)
                await connection.execute("UPDATE kcp_store SET revision = $1", revision)
                await connection.execute(f"NOTIFY {CHANNEL}")
        return revision

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        position, announced = max(start_revision, 1) - 1, False
        end = prefix_end(prefix) if prefix else ""
        while True:
            if self._closing:
                raise UnavailableError("the store is closing")
            changed = self._changed
            try:
                rows = await self._fetch(CHANGES, prefix, end, position, LARGEST_TRANSACTION + 1)
            except UnavailableError:
                await self._wait(changed)
                continue
            present, compacted = rows[0]["present"], rows[0]["compacted"]
            if position < compacted:
                raise CompactedError(position + 1, compacted)
            events = [_event(row) for row in rows if row["key"] is not None]
            if len(events) > LARGEST_TRANSACTION:
                # A page ends between two revisions; the last one may go on behind it.
                last = events[-1].mod_revision
                events = [event for event in events if event.mod_revision < last]
                present = last - 1
            if events or present > position or not announced:
                announced, position = True, max(position, present)
                yield WatchBatch(events, position)
            else:
                await self._wait(changed)

    async def revision(self) -> int:
        """`Storage.revision`."""
        return int((await self._fetch("SELECT revision FROM kcp_store"))[0]["revision"])

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        found = await self._fetch("UPDATE kcp_store SET compacted = $1 WHERE compacted < $1 AND $1 <= revision RETURNING 1", revision)
        if not found:
            (state,) = await self._fetch("SELECT revision, compacted FROM kcp_store")
            if revision > state["revision"]:
                raise FutureRevisionError(revision, state["revision"])
            raise CompactedError(revision, state["compacted"])
        self._start(self._remove(revision))

    async def check(self) -> None:
        """`Storage.check`."""
        await self.revision()

    async def _fetch(self, statement: str, *values: Any) -> list[Any]:
        with _translated(UnavailableError):
            return list(await self._pool.fetch(statement, *values))

    async def _remove(self, revision: int) -> None:
        # Where it fails, the next compaction removes the rest.
        with suppress(UnavailableError), _translated(UnavailableError):
            while await self._pool.execute(COMPACT, revision) != "DELETE 0":
                pass

    async def _listen(self) -> None:
        while True:
            lost = asyncio.Event()
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection = await asyncpg.connect(self._url)
                try:
                    connection.add_termination_listener(lambda _, lost=lost: lost.set())
                    await connection.add_listener(CHANNEL, lambda *_: self._wake())
                    self._wake()
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(1.0)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self, changed: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), POLL_SECONDS)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@contextmanager
def _translated(lost: type[UnavailableError]) -> Iterator[None]:
    """Raise the errors of the contract instead of those of the library. `lost` is the one for a connection that broke."""
    try:
        yield
    except asyncpg.DiskFullError as error:
        raise NoSpaceError(str(error)) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise lost(str(error) or type(error).__name__) from error


def _check(compare: Compare, item: KeyValue | None) -> None:
    mod, created = (item.mod_revision, item.create_revision) if item is not None else (0, 0)
    if compare.mod_revision not in {None, mod} or compare.create_revision not in {None, created}:
        raise ConflictError(compare.key, item)


def _item(row: Any) -> KeyValue:
    return KeyValue(row["key"], row["value"], row["revision"], row["created"])


def _event(row: Any) -> Event:
    old = None if row["old"] is None else KeyValue(row["key"], row["old"], row["old_revision"], row["old_created"])
    return Event(row["key"], row["value"], row["revision"], row["created"], old)
