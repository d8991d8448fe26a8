"""Reads, transactions and compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from kcp_py.storage.contract import (
    LARGEST_PAGE_BYTES,
    CompactedError,
    Compare,
    ConflictError,
    FutureRevisionError,
    KeyValue,
    Operation,
    Put,
    RangeResult,
    StorageError,
    UnavailableError,
    fitting,
    prefix_end,
)
from kcp_py.storage.etcd.channel import Connections
from kcp_py.storage.etcd.failures import COMPACTED, FUTURE, details, translate
from kcp_py.storage.etcd.messages import (
    COMPACT,
    COMPARE_CREATE,
    COMPARE_MOD,
    RANGE,
    TXN,
    WATCH,
    CompactionRequest,
    CompareRequest,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
    WatchCreateRequest,
    WatchRequest,
)
from kcp_py.storage.etcd.options import EtcdOptions
from kcp_py.storage.keys import internal_key
from kcp_py.storage.validation import check_transaction

# Pages limit the time that decoding a long list blocks the event loop (about 1 us per item and 1 ms per megabyte), and the size of a
# message.
_FIRST_PAGE: Final = 256
_LARGEST_PAGE: Final = 2_000
_PAGE_BYTES: Final = 1 << 20
_RESTARTS: Final = 3


def key_range(prefix: str) -> tuple[bytes, bytes]:
    """The first key and the exclusive end of a prefix in etcd's form; two NULs mean all keys."""
    return (prefix.encode(), prefix_end(prefix).encode()) if prefix else (b"\0", b"\0")


def key_value(message: Any) -> KeyValue:
    """A `KeyValue` message as the contract's."""
    return KeyValue(message.key.decode(), message.value, message.mod_revision, message.create_revision)


class KeyValues:
    """etcd's KV service with the contract's types."""

    def __init__(self, connections: Connections, options: EtcdOptions, observe: Callable[[int], None]) -> None:
        """`observe` is called with every revision of the store in an answer."""
        self._connections = connections
        self._max_txn_ops = options.max_txn_ops
        self._probe = internal_key(options.prefix, "probe").encode()
        self._observe = observe

    async def get(self, key: str) -> KeyValue | None:
        return (await self.read(key))[0]

    async def read(self, key: str) -> tuple[KeyValue | None, int]:
        response = await self._range(RangeRequest(key=key.encode()))
        return key_value(response.kvs[0]) if response.kvs else None, response.header.revision

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
        first, end = key_range(prefix)
        first = max(first, start.encode())
        if end != b"\0" and first >= end:
            # An empty range is an invalid request, but the revision may still be compacted or in the future.
            response = await self._range(RangeRequest(key=self._probe, revision=revision, count_only=True))
            return RangeResult([], revision or response.header.revision, more=False, total=0 if count else -1)
        for _ in range(_RESTARTS):
            try:
                return await self._pages((first, end), limit, revision=revision, count=count, keys_only=keys_only, max_bytes=max_bytes)
            except CompactedError:
                # A list of the current revision, which was compacted during the list, restarts at a newer one.
                if revision:
                    raise
        raise UnavailableError("the store is compacted faster than it can be listed")

    async def _pages(
        self, bounds: tuple[bytes, bytes], limit: int, *, revision: int, count: bool, keys_only: bool, max_bytes: int
    ) -> RangeResult:
        first, end = bounds
        items: list[KeyValue] = []
        total = -1
        held = 0
        page = _LARGEST_PAGE if keys_only else _FIRST_PAGE
        while True:
            page = min(page, limit - len(items)) if limit else page
            response = await self._range(RangeRequest(key=first, range_end=end, limit=page, revision=revision, keys_only=keys_only))
            revision = revision or response.header.revision
            if count and total < 0:
                total = response.count
            kvs = response.kvs
            items += [KeyValue(kv.key.decode(), kv.value, kv.mod_revision, kv.create_revision) for kv in kvs]
            size = 0 if keys_only else sum(len(item.value) + len(item.key) for item in items[-len(kvs) :])
            held += size
            if limit and held > max_bytes:
                taken = fitting(items, max_bytes)
                return RangeResult(items[:taken], revision, more=response.more or taken < len(items), total=total)
            if not response.more or (limit and len(items) >= limit):
                return RangeResult(items, revision, more=response.more, total=total)
            first = kvs[-1].key + b"\0"
            if not keys_only:
                page = max(1, min(_LARGEST_PAGE, len(kvs) * _PAGE_BYTES // max(size, 1)))

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        check_transaction(compares, operations)
        if not compares and not operations:
            # etcd answers an empty transaction without contacting other members, so possibly with an old revision.
            return await self.revision()
        request, keys = self._transaction(compares, operations)
        try:
            response = await self._connections.call(TXN, request, repeatable=not operations)
        except grpc.aio.AioRpcError as error:
            raise translate(error) from error
        revision: int = response.header.revision
        self._observe(revision)
        if response.succeeded:
            return revision
        found = {
            key: key_value(answer.response_range.kvs[0]) if answer.response_range.kvs else None
            for key, answer in zip(keys, response.responses, strict=True)
        }
        raise next(ConflictError(compare.key, found[compare.key]) for compare in compares if not _holds(compare, found[compare.key]))

    def _transaction(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> tuple[Any, list[str]]:
        guards = []
        for compare in compares:
            key = compare.key.encode()
            if compare.mod_revision is not None:
                guards.append(CompareRequest(target=COMPARE_MOD, key=key, mod_revision=compare.mod_revision))
            if compare.create_revision is not None:
                guards.append(CompareRequest(target=COMPARE_CREATE, key=key, create_revision=compare.create_revision))
        success = [
            RequestOp(request_put=PutRequest(key=operation.key.encode(), value=operation.value))
            if isinstance(operation, Put)
            else RequestOp(request_delete_range=DeleteRangeRequest(key=operation.key.encode()))
            for operation in operations
        ]
        keys = list(dict.fromkeys(compare.key for compare in compares))
        failure = [RequestOp(request_range=RangeRequest(key=key.encode())) for key in keys]
        if max(len(guards), len(success)) > self._max_txn_ops:
            success = self._nested(len(guards), success)
        return TxnRequest(compare=guards, success=success, failure=failure), keys

    def _nested(self, guards: int, operations: list[Any]) -> list[Any]:
        """Distribute operations over inner transactions, which etcd runs atomically with the outer one.

        A level may hold as many operations as its outer level has left of `--max-txn-ops` (`checkTxnRequest` in etcd's `v3rpc/key.go`).
        """
        for outer in range(1, self._max_txn_ops):
            inner = self._max_txn_ops - max(outer, guards)
            if inner > 0 and outer * inner >= len(operations):
                return [
                    RequestOp(request_txn=TxnRequest(success=operations[begin : begin + inner]))
                    for begin in range(0, len(operations), inner)
                ]
        raise StorageError(
            f"{guards} conditions and {len(operations)} operations are more than etcd's --max-txn-ops={self._max_txn_ops} allows"
        )

    async def revision(self) -> int:
        response = await self._range(RangeRequest(key=self._probe, count_only=True))
        return int(response.header.revision)

    async def compact(self, revision: int) -> None:
        try:
            response = await self._connections.call(COMPACT, CompactionRequest(revision=revision), repeatable=False)
        except grpc.aio.AioRpcError as error:
            if COMPACTED in details(error):
                raise CompactedError(revision, await self._compact_revision(revision - 1)) from None
            if FUTURE in details(error):
                raise FutureRevisionError(revision, await self.revision()) from None
            raise translate(error) from error
        self._observe(response.header.revision)

    async def require_kept(self, revision: int) -> None:
        """Check that a revision (at least 1) was not compacted. A future revision is valid.

        Raises:
            CompactedError: it was compacted.
        """
        try:
            await self._range(RangeRequest(key=self._probe, revision=revision, count_only=True))
        except FutureRevisionError:
            return

    async def _range(self, request: Any) -> Any:
        try:
            response = await self._connections.call(RANGE, request, repeatable=True)
        except grpc.aio.AioRpcError as error:
            if COMPACTED in details(error):
                raise CompactedError(request.revision, await self._compact_revision(request.revision)) from None
            if FUTURE in details(error):
                raise FutureRevisionError(request.revision, await self.revision()) from None
            raise translate(error) from error
        self._observe(response.header.revision)
        return response

    async def _compact_revision(self, older: int) -> int:
        """The compact revision, given a smaller one. Only a watch that starts too early receives it."""
        if older < 1:
            try:
                await self._connections.call(RANGE, RangeRequest(key=self._probe, revision=1, count_only=True), repeatable=True)
            except grpc.aio.AioRpcError as error:
                if COMPACTED not in details(error):
                    raise translate(error) from error
            else:
                return older + 1
        connection = await self._connections.ready()
        metadata = await self._connections.metadata(connection)
        call = self._connections.open_stream(WATCH, connection, metadata, timeout=self._connections.request_timeout)
        try:
            await call.write(WatchRequest(create_request=WatchCreateRequest(key=self._probe, start_revision=max(older, 1))))
            while (response := await call.read()) is not grpc.aio.EOF:
                if response.compact_revision:
                    return int(response.compact_revision)
        except grpc.aio.AioRpcError as error:
            raise translate(error) from error
        finally:
            self._connections.end_stream(call)
        raise UnavailableError("etcd ended a watch")


def _holds(compare: Compare, found: KeyValue | None) -> bool:
    mod, create = (found.mod_revision, found.create_revision) if found else (0, 0)
    return compare.mod_revision in {None, mod} and compare.create_revision in {None, create}
