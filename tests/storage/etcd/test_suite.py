"""The suite and the model that every driver passes, over a real etcd."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    Delete,
    Event,
    FutureRevisionError,
    KeyValue,
    Operation,
    Put,
    RangeResult,
    Storage,
    WatchBatch,
)
from kcp_py.storage.etcd import EtcdOptions, EtcdStorage
from kcp_py.storage.watched import WatchedStorage
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite


class FreshStore:
    """An etcd that has been used before, seen as an empty store: keys lie below a new prefix, revisions count from the first entry.

    A new etcd for each example would take most of a second. No other test may write to it in the meantime.
    """

    def __init__(self, url: str, *, watched: bool = False) -> None:
        etcd = EtcdStorage(EtcdOptions((url,)))
        self._root = f"/{uuid.uuid4().hex}"
        # Watches of the whole example, and all others below it.
        self._storage: Storage = WatchedStorage(etcd, self._root, max_bytes=1 << 20) if watched else etcd
        self._base = -1

    async def __aenter__(self) -> Self:
        await self._storage.__aenter__()
        if self._base < 0:
            self._base = await self._storage.revision()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._storage.__aexit__(*exc_info)

    def _inner(self, revision: int | None) -> Any:
        return revision and revision + self._base

    def _outer(self, found: KeyValue | None) -> Any:
        if found is None:
            return None
        return KeyValue(
            found.key.removeprefix(self._root), found.value, found.mod_revision - self._base, found.create_revision - self._base
        )

    @contextmanager
    def _errors(self) -> Any:
        try:
            yield
        except ConflictError as error:
            raise ConflictError(error.key.removeprefix(self._root), self._outer(error.current)) from error
        except CompactedError as error:
            raise CompactedError(error.revision - self._base, error.compact_revision - self._base) from error
        except FutureRevisionError as error:
            raise FutureRevisionError(error.revision - self._base, error.current - self._base) from error

    async def get(self, key: str) -> KeyValue | None:
        found: KeyValue | None = self._outer(await self._storage.get(self._root + key))
        return found

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, **options: Any) -> RangeResult:
        with self._errors():
            start = start and self._root + start
            result = await self._storage.range(self._root + prefix, start=start, revision=self._inner(revision), **options)
            return result._replace(items=[self._outer(item) for item in result.items], revision=result.revision - self._base)

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        inner_compares = [
            Compare(self._root + key, self._inner(mod_revision), self._inner(create_revision))
            for key, mod_revision, create_revision in compares
        ]
        inner_operations = [
            Put(self._root + operation.key, operation.value) if isinstance(operation, Put) else Delete(self._root + operation.key)
            for operation in operations
        ]
        with self._errors():
            return await self._storage.transact(inner_compares, inner_operations) - self._base

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        with self._errors():
            async with aclosing(self._storage.watch(self._root + prefix, start_revision=start_revision + self._base)) as watch:
                async for events, revision in watch:
                    yield WatchBatch([self._event(event) for event in events], revision - self._base)

    def _event(self, event: Event) -> Event:
        return Event(
            event.key.removeprefix(self._root),
            event.value,
            event.mod_revision - self._base,
            event.create_revision - self._base,
            self._outer(event.previous),
        )

    async def revision(self) -> int:
        return await self._storage.revision() - self._base

    async def compact(self, revision: int) -> None:
        with self._errors():
            await self._storage.compact(revision + self._base)

    async def check(self) -> None:
        await self._storage.check()


class TestEtcdStorage(StorageSuite):
    """The suite on an etcd that is emptied before each test."""

    @pytest.fixture
    async def storage(self, suite_url: str) -> AsyncIterator[EtcdStorage]:
        async with EtcdStorage(EtcdOptions((suite_url,))) as storage:
            while items := (await storage.range("", limit=500, keys_only=True)).items:
                await storage.transact([], [Delete(item.key) for item in items])
            yield storage


class TestWatchedEtcdStorage(StorageSuite):
    """The suite on an etcd behind a cache, with watches of all keys from the shared watch."""

    @pytest.fixture
    async def storage(self, suite_url: str) -> AsyncIterator[WatchedStorage]:
        async with WatchedStorage(EtcdStorage(EtcdOptions((suite_url,))), "", max_bytes=1 << 20) as storage:
            while items := (await storage.range("", limit=500, keys_only=True)).items:
                await storage.transact([], [Delete(item.key) for item in items])
            yield storage


@pytest.mark.parametrize("watched", [False, True])
def test_model(suite_url, watched):
    """In histories that hypothesis makes up, with compactions and restarts, etcd answers as the model does, with and without a cache."""
    run_state_machine_as_test(
        storage_machine(lambda: FreshStore(suite_url, watched=watched)),
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
