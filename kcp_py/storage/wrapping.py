"""`WrappedStorage`: a store around another one, which sees every call. For latency, faults, metrics, limits, logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Literal, NamedTuple, Self, TypeVar

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    Compare,
    KeyValue,
    Operation,
    RangeResult,
    Storage,
    TellsRoom,
    WatchBatch,
)
from kcp_py.storage.oldkeys import read_at

T = TypeVar("T")

StorageMethod = Literal["get", "range", "transact", "watch", "revision", "compact", "check"]


class StorageCall(NamedTuple):
    """One call of a method of a store."""

    method: StorageMethod
    keys: tuple[str, ...] = ()
    """The key of `get`, the prefix of `range` and `watch`, the keys that `transact` writes; else empty."""


class WrappedStorage:
    """A `Storage` that passes every call to another one. A subclass overrides `around`, or methods of the contract.

    A class of this kind can be given to `ControlPlane(storage=…)` itself: it then wraps the store that the options name. What a
    driver keeps in memory to answer lists without a read is not used, so that every read of the server is a call.
    """

    def __init__(self, storage: Storage) -> None:
        """Wrap a store, which is entered and left with this one."""
        self.wrapped = storage

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - for subclasses
        """Carry out a call of any method, and each step of a watch. Override it.

        Args:
            call: the method and its keys.
            proceed: calls the wrapped store. For `watch` it waits for the next batch.

        Returns:
            The result of `proceed`.

        Raises:
            StorageError: the contract has the classes. One that is raised for a step of a watch ends the watch.
        """
        return await proceed()

    async def get(self, key: str) -> KeyValue | None:
        """`Storage.get`."""
        return await self.around(StorageCall("get", (key,)), lambda: self.wrapped.get(key))

    async def get_at(self, key: str, revision: int, *, keys_only: bool = False) -> KeyValue | None:
        """A key at an earlier revision: `get` for `around`, by the fastest way that the wrapped store has."""
        return await self.around(StorageCall("get", (key,)), lambda: read_at(self.wrapped, key, revision, keys_only=keys_only))

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

        def proceed() -> Awaitable[RangeResult]:
            return self.wrapped.range(
                prefix, start=start, limit=limit, revision=revision, count=count, keys_only=keys_only, max_bytes=max_bytes
            )

        return await self.around(StorageCall("range", (prefix,)), proceed)

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """`Storage.transact`."""
        keys = tuple(operation.key for operation in operations)
        return await self.around(StorageCall("transact", keys), lambda: self.wrapped.transact(compares, operations))

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """`Storage.watch`."""
        call = StorageCall("watch", (prefix,))
        async with aclosing(self.wrapped.watch(prefix, start_revision=start_revision)) as batches:
            while (batch := await self.around(call, lambda: _next(batches))) is not None:
                yield batch

    async def revision(self) -> int:
        """`Storage.revision`."""
        return await self.around(StorageCall("revision"), self.wrapped.revision)

    async def compact(self, revision: int) -> None:
        """`Storage.compact`."""
        await self.around(StorageCall("compact"), lambda: self.wrapped.compact(revision))

    async def check(self) -> None:
        """`Storage.check`."""
        await self.around(StorageCall("check"), self.wrapped.check)

    async def __aenter__(self) -> Self:
        await self.wrapped.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.wrapped.__aexit__(*exc_info)


async def _next(batches: AsyncGenerator[WatchBatch, None]) -> WatchBatch | None:
    # A coroutine cannot raise StopAsyncIteration through `around`.
    return await anext(batches, None)


def driver_of(storage: Storage) -> Storage:
    """The driver inside of wrappers, for what concerns it alone: its size and its disk."""
    while isinstance(storage, WrappedStorage):
        storage = storage.wrapped
    return storage


def room_of(storage: Storage) -> TellsRoom | None:
    """The driver of a store, if it reserves disk space for deletions."""
    driver = driver_of(storage)
    return driver if isinstance(driver, TellsRoom) else None
