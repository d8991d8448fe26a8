"""The contract of storage drivers. Read this before any driver.

The store is a sorted map from text keys to bytes with one revision counter, as in etcd (the rules and words are those of etcd's `mvcc`):

* Every successful `transact` that changes anything raises the revision by one; all its operations share the new revision.
  A transaction whose operations change nothing (no operation, or deletes of absent keys only) leaves the revision alone.
* A key's `mod_revision` is the revision of its last put, its `create_revision` the revision of the put that made it exist.
* Writes are durable before `transact` returns, and become visible to `get`, `range` and `watch` in revision order.
* Reads without a revision are never stale: they see every write that was acknowledged, by any server, before the read began.
* The past is readable and watchable back to the last compacted revision.

Keys are `str` in code-point order (which is the byte order of their UTF-8 form), and never hold NUL. Values are `bytes`, never empty.

Example, on an empty store::

    r1 = await storage.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1")])   # create: 1
    r2 = await storage.transact([Compare("/a", mod_revision=r1)], [Put("/a", b"2")])  # update: 2
    await storage.transact([Compare("/a", mod_revision=r1)], [Put("/a", b"3")])       # raises ConflictError
    await storage.get("/a")                  # KeyValue("/a", b"2", mod_revision=2, create_revision=1)
    await storage.range("/", revision=r1)    # items: [KeyValue("/a", b"1", 1, 1)], revision: 1
    async for batch in storage.watch("/", start_revision=r1 + 1): ...   # first batch: one event, value b"2", previous b"1"

Errors are the classes below and nothing else; drivers translate what their library raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Final, NamedTuple, Protocol, Self, runtime_checkable


class KeyValue(NamedTuple):
    """One key as it stood at some revision."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int


class RangeResult(NamedTuple):
    """The answer of `Storage.range`."""

    items: list[KeyValue]
    """In key order; at most `limit`."""
    revision: int
    """The revision that was read: the one asked for, or the store's at the time of the read."""
    more: bool
    """Whether keys remain behind the last item."""
    total: int
    """The number of keys in the requested range (from `start` on, regardless of `limit`); -1 if it was not requested."""


class Event(NamedTuple):
    """One change of one key."""

    key: str
    value: bytes | None
    """The new value; None where the key was deleted."""
    mod_revision: int
    create_revision: int
    """Of the key's present life; of the life that just ended, for a delete."""
    previous: KeyValue | None
    """The key before the change; None where it did not exist."""


class WatchBatch(NamedTuple):
    """Events in revision order, never splitting a revision, and how far the watch has come with them."""

    events: Sequence[Event]
    revision: int
    """Every change of the watched prefix up to and including this revision has been delivered. A batch without events is progress alone."""


class Compare(NamedTuple):
    """A condition of a transaction on one key. Every field given must hold."""

    key: str
    mod_revision: int | None = None
    """0: the key must not exist."""
    create_revision: int | None = None
    """0: the key must not exist. Holds through updates, fails after delete and re-creation."""


class Put(NamedTuple):
    """Write a value."""

    key: str
    value: bytes


class Delete(NamedTuple):
    """Remove a key; removing an absent key changes nothing."""

    key: str


Operation = Put | Delete


LARGEST_PAGE_BYTES: Final = 16 * 1024 * 1024
"""A page that was asked for with a limit ends with the first value that goes beyond this, unless less was asked for."""

_NAMED_KEYS: Final = 10


class StorageError(Exception):
    """The root of what storage raises."""


class ConflictError(StorageError):
    """A compare of a transaction failed; nothing was written."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(f"compare failed on {key}")
        self.key = key
        """The first key, in the order of the compares given, whose compare failed."""
        self.current = current
        """The key as it stands (None: it does not exist)."""


class CompactedError(StorageError):
    """The requested revision is older than the kept history."""

    def __init__(self, revision: int, compact_revision: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest that is kept is {compact_revision}")
        self.revision = revision
        self.compact_revision = compact_revision
        """Reads at this revision still work, watches from the next one on do."""


class FutureRevisionError(StorageError):
    """The revision asked for has not happened yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} is in the future; the store is at {current}")
        self.revision = revision
        self.current = current


class UnavailableError(StorageError):
    """The store cannot be reached or is closing. Whether a write in flight took effect is unknown."""


class UnknownOutcomeError(UnavailableError):
    """A write was sent and its answer was lost. It may take effect now or later, and must not be repeated without a read."""


class DamagedError(StorageError):
    """Stored bytes are damaged and are not returned."""

    def __init__(self, keys: Sequence[str] = (), found: RangeResult | None = None) -> None:
        what = f"what is stored at {', '.join(keys[:_NAMED_KEYS])}" if keys else "a part of the store"
        super().__init__(f"{what} is damaged: its checksum is wrong")
        self.keys = tuple(keys)
        """The keys that cannot be read; empty where the keys themselves cannot."""
        self.found = found
        """The readable part of the range; None if it is unknown."""


class NoSpaceError(StorageError):
    """The store is full; reads go on."""


class Storage(Protocol):
    """A revisioned key/value store.

    All methods may be called concurrently from one event loop; none blocks it for more than a few milliseconds.
    """

    async def get(self, key: str) -> KeyValue | None:
        """The key as it stands now, or None.

        Raises:
            DamagedError: it cannot be read.
        """
        ...

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
        """The keys that begin with `prefix`, in order.

        Args:
            prefix: what the keys begin with; an empty prefix is every key.
            start: skip keys smaller than this one; empty for the first.
            limit: return at most so many items, and none behind `max_bytes` of values; 0 for all, however large.
            revision: read the store as it stood then; 0 for now.
            count: also count the range.
            keys_only: items come with the value `b""`, which is cheaper.
            max_bytes: a page with a limit ends with the first value that goes beyond this; at least 0.

        Raises:
            CompactedError: `revision` is no longer kept.
            FutureRevisionError: `revision` has not happened yet.
            DamagedError: some of it cannot be read; the error has the rest.
        """
        ...

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        """Carry out all operations if all compares hold, else none. No key may occur in two operations; at most 500 operations.

        Returns:
            The revision after the transaction.

        Raises:
            ConflictError: a compare failed.
            NoSpaceError: the store is full; nothing was written.
            UnavailableError: the store went away; the outcome is unknown, and the driver does not retry.
        """
        ...

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Every change of keys under `prefix` from `start_revision` on (inclusive), without gap or repetition, until `aclose`.

        A batch without events comes whenever the store has come further without a change under the prefix, at least once at the beginning
        when the watch has caught up, so that a reader knows that nothing is missing. A `start_revision` in the future is legal: earlier
        events are skipped.
        Close the generator (`aclose`) to end the watch.

        Raises:
            CompactedError: events from `start_revision` on are no longer all kept; raised at the first iteration or, for a reader who falls
                behind, later.
            UnavailableError: the store is closing.
        """
        ...

    async def revision(self) -> int:
        """The current revision; 0 for an empty store. It is never lower than the revision of an earlier read, acknowledged or not."""
        ...

    async def compact(self, revision: int) -> None:
        """Remove values that were overwritten or deleted at or before `revision`. Current keys remain. Returns at once; the work is sliced.

        Raises:
            CompactedError: that or a later revision was compacted before.
            FutureRevisionError: `revision` has not happened yet.
        """
        ...

    async def check(self) -> None:
        """Whether the store answers; used by readiness.

        Raises:
            UnavailableError: it does not.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...


@runtime_checkable
class TellsRoom(Protocol):
    """A driver that reserves disk space for deletions."""

    @property
    def full(self) -> bool:
        """Whether only deletions and small changes are accepted, because the disk is full."""
        ...


async def readable(reading: Awaitable[RangeResult]) -> RangeResult:
    """The readable part of a range, for callers that serve many clusters together. Damaged keys are left out; the driver has logged them.

    Raises:
        StorageError: any error except damage.
    """
    try:
        return await reading
    except DamagedError as error:
        if error.found is None:
            raise
        return error.found


def fitting(items: Sequence[KeyValue], max_bytes: int) -> int:
    """How many of the items, which come in a page with a limit, stay in it: up to the first that goes beyond the bytes."""
    size = 0
    for count, item in enumerate(items, start=1):
        size += len(item.value)
        if size > max_bytes:
            return count
    return len(items)


def prefix_end(prefix: str) -> str:
    """The smallest text greater than every text that begins with `prefix` (which must not be empty and ends below U+10FFFF)."""
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates cannot be stored
