"""Compares a storage driver with the model, call by call, in histories that hypothesis generates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    Delete,
    Event,
    FutureRevisionError,
    Operation,
    Put,
    Storage,
    WatchBatch,
)
from kcp_py.storage.oldkeys import read_at
from kcp_py.testing.storage_model import StorageModel

_KEYS = ["/a", "/a/", "/a/1", "/a/2", "/a/10", "/a/é", "/a/\ue000", "/a/\U0001f600", "/a0", "/b/1", "/b/2", "/c"]
_PREFIXES = ["", "/", "/a", "/a/", "/a/1", "/b/", "/nothing", "/a/\ue000"]
_TIMEOUT = 30.0

_keys = st.sampled_from(_KEYS)
_prefixes = st.sampled_from(_PREFIXES)
_values = st.binary(min_size=1, max_size=8)


def storage_machine(make_storage: Callable[[], Storage]) -> type[RuleBasedStateMachine]:
    """A state machine for hypothesis; give its `TestCase` to the test runner.

    Example::

        TestMachine = storage_machine(MemoryStorage).TestCase

    Args:
        make_storage: creates an empty store that is not entered yet. After it was left and entered again, it must have the same data, which
            is how the machine restarts a server.
    """

    class StorageMachine(_StorageMachine):
        make = staticmethod(make_storage)

    return StorageMachine


class _StorageMachine(RuleBasedStateMachine):
    make: Callable[[], Storage]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.storage = type(self).make()
        self.call(self.storage.__aenter__())
        self.model = StorageModel(self.call(self.storage.revision()))
        self.watches: list[_Watch] = []

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine to its end, with a time limit."""

        async def run() -> Any:
            async with asyncio.timeout(_TIMEOUT):
                return await coroutine

        return self.runner.run(run())

    def both(self, driver: Any, model: Callable[[], Any]) -> None:
        """Check that the driver and the model return the same result or error."""
        expected = actual = expected_error = actual_error = None
        try:
            expected = model()
        except (ConflictError, CompactedError, FutureRevisionError) as error:
            expected_error = (type(error), vars(error))
        try:
            actual = self.call(driver)
        except (ConflictError, CompactedError, FutureRevisionError) as error:
            actual_error = (type(error), vars(error))
        assert actual_error == expected_error
        assert actual == expected

    @rule(key=_keys)
    def get(self, key: str) -> None:
        """Read a key."""
        self.both(self.storage.get(key), lambda: self.model.get(key))

    @rule(data=st.data(), key=_keys)
    def get_at(self, data: st.DataObject, key: str) -> None:
        """Read a key at the current or an old revision."""
        revision = data.draw(st.integers(max(1, self.model.oldest - 1), self.model.revision + 1))
        self.both(read_at(self.storage, key, revision), lambda: self.model.get_at(key, revision))

    @rule(data=st.data(), operations=st.lists(st.tuples(_keys, _values | st.none()), max_size=4, unique_by=lambda item: item[0]))
    def transact(self, data: st.DataObject, operations: list[tuple[str, bytes | None]]) -> None:
        """Write with conditions that usually hold."""
        compares = []
        for key in data.draw(st.lists(_keys, max_size=2)):
            current = self.model.get(key)
            mod, create = (current.mod_revision, current.create_revision) if current else (0, 0)
            wrong = st.integers(0, self.model.revision + 1)
            compares.append(
                Compare(
                    key,
                    mod_revision=data.draw(st.none() | st.just(mod) | st.just(mod) | wrong),
                    create_revision=data.draw(st.none() | st.just(create) | wrong),
                )
            )
        changes: list[Operation] = [Delete(key) if value is None else Put(key, value) for key, value in operations]
        self.both(self.storage.transact(compares, changes), lambda: self.model.transact(compares, changes))

    @rule(
        data=st.data(),
        prefix=_prefixes,
        start=st.just("") | _keys,
        limit=st.integers(0, 4),
        count=st.booleans(),
        keys_only=st.booleans(),
    )
    def range(self, data: st.DataObject, prefix: str, start: str, *, limit: int, count: bool, keys_only: bool) -> None:
        """Read a range at the current or an old revision."""
        revision = data.draw(st.just(0) | st.integers(max(1, self.model.oldest - 1), self.model.revision + 1))
        options: dict[str, Any] = {"start": start, "limit": limit, "revision": revision, "count": count, "keys_only": keys_only}
        self.both(self.storage.range(prefix, **options), lambda: self.model.range(prefix, **options))

    @rule(data=st.data(), prefix=_prefixes)
    def watch_history(self, data: st.DataObject, prefix: str) -> None:
        """Watch from an old revision up to the current one, and close the watch."""
        start = data.draw(st.integers(max(1, self.model.oldest), self.model.revision + 1))
        watch = _Watch(self.storage, prefix, start)
        self.both(watch.read(self.model.revision), lambda: self.model.events(prefix, start))
        self.call(watch.close())

    @precondition(lambda self: len(self.watches) < 3)
    @rule(prefix=_prefixes)
    def begin_watch(self, prefix: str) -> None:
        """Open a watch from the current revision."""
        self.watches.append(_Watch(self.storage, prefix, self.model.revision + 1))

    @precondition(lambda self: self.watches)
    @rule(data=st.data())
    def read_watch(self, data: st.DataObject) -> None:
        """Read an open watch. Compaction may have overtaken it only if it was behind."""
        watch = data.draw(st.sampled_from(self.watches))
        expected_start = watch.position + 1
        if expected_start <= self.model.compact_revision and not watch.joined:
            self.both(watch.read(self.model.revision), lambda: self.model.events(watch.prefix, expected_start))
            self.watches.remove(watch)
            return
        compacted, self.model.compact_revision = self.model.compact_revision, 0
        try:
            self.both(watch.read(self.model.revision), lambda: self.model.events(watch.prefix, expected_start))
        finally:
            self.model.compact_revision = compacted

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Compact history."""
        revision = data.draw(st.integers(max(1, self.model.oldest), self.model.revision + 1))
        self.both(self.storage.compact(revision), lambda: self.model.compact(revision))

    @rule()
    def restart(self) -> None:
        """Leave the store and enter it again."""
        for watch in self.watches:
            self.call(watch.close())
        self.watches.clear()
        self.call(self.storage.__aexit__(None, None, None))
        self.call(self.storage.__aenter__())

    @invariant()
    def same_revision(self) -> None:
        """The revisions agree after every step."""
        self.both(self.storage.revision(), lambda: self.model.revision)

    def teardown(self) -> None:
        """Close everything."""
        for watch in self.watches:
            self.call(watch.close())
        self.call(self.storage.__aexit__(None, None, None))
        self.runner.close()


class _Watch:
    """A watch and its position."""

    def __init__(self, storage: Storage, prefix: str, start_revision: int) -> None:
        self.prefix = prefix
        self.position = start_revision - 1
        self.joined = False
        """Whether the watch reported that it caught up. From then on the driver buffers its events and compaction does not affect it."""
        self._batches: AsyncGenerator[WatchBatch, None] = storage.watch(prefix, start_revision=start_revision)

    async def read(self, until: int) -> list[Event]:
        """All events up to a revision."""
        events: list[Event] = []
        while self.position < until or not self.joined:
            batch = await anext(self._batches)
            assert all(self.position < event.mod_revision <= batch.revision for event in batch.events)
            assert list(batch.events) == sorted(batch.events, key=lambda event: event.mod_revision)
            assert batch.revision >= self.position
            self.joined = self.joined or not batch.events
            self.position = batch.revision
            events += batch.events
        return events

    async def close(self) -> None:
        await self._batches.aclose()
