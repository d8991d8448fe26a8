"""`Spans`: what was made of contiguous ranges of keys, kept until one of the keys is written.

A list of thousands of objects costs milliseconds in the database and as many to print, and most lists that are asked for again have hardly
changed. So their bytes are kept in spans of some hundred keys: a write drops the one span that its key falls into, and the next list reads
that span alone.

Nothing that is kept is ever stale. A driver that offers spans tells of each key *before* the write of it can be seen (`writing`) and again
when the write is acknowledged or failed (`committed`). A span is dropped at the first, and none that holds the key is kept before the
second. Who fills spans opens a `reading` before it reads: what is written from then on is known to it, and is not kept as it was read.

A span answers for every revision from `since`, at which it was read, until now.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from operator import attrgetter
from typing import Final, Protocol, runtime_checkable

from kcp_py.aio.lru import LRU
from kcp_py.storage.contract import Storage

_MOST_WRITING: Final = 1_000
"""Keys being written that are looked through; with more of them every prefix counts as being written."""
_MOST_COUNTS: Final = 256
"""Ranges whose keys were counted: as many lists may be read in pages at a time."""
_KEY_OVERHEAD: Final = 64
"""Bytes that a key takes beside its characters."""


class Span:
    """The elements made of the keys in [lower, upper), in key order, each led by a comma."""

    __slots__ = ("_ends", "data", "keys", "lower", "since", "size", "upper")

    def __init__(self, lower: str, upper: str, since: int, keys: Sequence[str], elements: Sequence[bytes]) -> None:
        self.lower = lower
        self.upper = upper
        self.since = since
        self.keys = keys
        self.data = b"".join((b",", b",".join(elements))) if elements else b""
        self._ends = array("Q", accumulate(map(len, elements)))
        self.size = len(self.data) + sum(map(len, keys)) + _KEY_OVERHEAD * len(keys)
        """Bytes of memory, about."""

    def part(self, first: int, end: int) -> bytes:
        """The elements from the position `first` on, up to `end` (exclusive)."""
        if first >= end:
            return b""
        if first == 0 and end == len(self.keys):
            return self.data
        begin = self._ends[first - 1] + first if first else 0
        return self.data[begin : self._ends[end - 1] + end]


_lower: Final = attrgetter("lower")


class _Table:
    """The spans of one prefix: disjoint, in order."""

    __slots__ = ("maker", "since", "size", "spans", "touched")

    def __init__(self, maker: Hashable, since: int) -> None:
        self.maker = maker
        self.since = since
        """From this revision on every write below the prefix is known."""
        self.touched = 0
        """The revision of the last of them; perhaps a later one, never an earlier."""
        self.spans: list[Span] = []
        self.size = 0

    def at(self, key: str) -> Span | None:
        position = bisect_right(self.spans, key, key=_lower) - 1
        if position < 0:
            return None
        span = self.spans[position]
        return span if key < span.upper else None

    def behind(self, key: str) -> Span | None:
        """The first span that begins behind a key."""
        position = bisect_right(self.spans, key, key=_lower)
        return self.spans[position] if position < len(self.spans) else None

    def drop(self, span: Span) -> None:
        del self.spans[bisect_left(self.spans, span.lower, key=_lower)]
        self.size -= span.size


class Reading:
    """One reader of a prefix, from before it read."""

    __slots__ = ("blind", "prefix", "written")

    def __init__(self, prefix: str, written: dict[str, int], *, blind: bool) -> None:
        self.prefix = prefix
        self.written = written
        """The keys that were written since, or were being written then, and at which revision at the latest."""
        self.blind = blind
        """Not all of them are known: nothing is kept."""


class Spans:
    """Bounded by bytes: a prefix takes half of them at the most, and the one that was not used for longest gives way."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tables: OrderedDict[str, _Table] = OrderedDict()
        self._size = 0
        self._writing: dict[str, int] = {}
        self._readings: set[Reading] = set()
        self._compacted = 0
        self._counts: LRU[tuple[str, str, int], int] = LRU(_MOST_COUNTS)

    @property
    def size(self) -> int:
        """Bytes of memory that are in use, about."""
        return self._size

    # The driver's side

    def writing(self, key: str, revision: int) -> None:
        """A key is about to be changed, at this revision or not at all."""
        self._writing[key] = revision
        for reading in self._readings:
            if key.startswith(reading.prefix):
                reading.written[key] = revision
        if not self._tables:
            return
        end = key.find("/", 1)
        while end > 0:
            table = self._tables.get(key[: end + 1])
            if table is not None:
                table.touched = max(table.touched, revision)
                span = table.at(key)
                if span is not None:
                    table.drop(span)
                    self._size -= span.size
                    if not table.spans:
                        del self._tables[key[: end + 1]]
            end = key.find("/", end + 1)

    def committed(self) -> None:
        """The writes are over, this way or the other, and nobody has been told yet."""
        if self._writing:
            self._writing = {}

    def compacted(self, revision: int) -> None:
        """Earlier revisions are no longer answered for."""
        self._compacted = revision

    def clear(self) -> None:
        """Forget everything: others may write from now on."""
        for reading in self._readings:
            reading.blind = True
        self._tables.clear()
        self._counts.clear()
        self._size = 0

    # The reader's side

    def settled(self, prefix: str) -> bool:
        """Whether no key below a prefix is being written: then all that can be seen of it has been acknowledged."""
        return len(self._writing) <= _MOST_WRITING and not any(key.startswith(prefix) for key in self._writing)

    def find(self, prefix: str, maker: Hashable, key: str, revision: int) -> Span | None:
        """The span that holds the place of a key, if it answers for a revision.

        Args:
            prefix: what the span was kept under.
            maker: what made its elements.
            key: the place.
            revision: 0 for now.
        """
        table = self._tables.get(prefix)
        if table is None or table.maker != maker:
            return None
        span = table.at(key)
        if span is None or (revision and not self._compacted <= revision >= span.since):
            return None
        self._tables.move_to_end(prefix)
        return span

    def count(self, lower: str, upper: str, revision: int) -> int:
        """How many keys there were in [lower, upper) at a revision; -1 where nobody has counted them lately."""
        number = self._counts.get((lower, upper, revision))
        return -1 if number is None else number

    def counted(self, lower: str, upper: str, revision: int, number: int) -> None:
        """Remember that: the past does not change, and the next page of a list begins where the one before it ended."""
        self._counts.set((lower, upper, revision), number)

    def next_lower(self, prefix: str, maker: Hashable, key: str) -> str:
        """Where the first span begins that lies behind a key; empty where there is none."""
        table = self._tables.get(prefix)
        span = table.behind(key) if table is not None and table.maker == maker else None
        return span.lower if span is not None else ""

    @contextmanager
    def reading(self, prefix: str) -> Iterator[Reading]:
        """To be open from before a read below a prefix until what it found is kept."""
        blind = len(self._writing) > _MOST_WRITING
        written = {} if blind else {key: revision for key, revision in self._writing.items() if key.startswith(prefix)}
        reading = Reading(prefix, written, blind=blind)
        self._readings.add(reading)
        try:
            yield reading
        finally:
            self._readings.discard(reading)

    def keep(self, reading: Reading, maker: Hashable, span: Span, *, latest: bool) -> None:
        """Keep a span, unless it may not be what is there now.

        Args:
            reading: open since before the span was read; its prefix begins all keys of the span, and ends with a slash.
            maker: what made the elements. One prefix has spans of one maker.
            span: what was read, at its `since`.
            latest: `since` was found to be the latest revision with this reading open; nobody asked for it.
        """
        prefix = reading.prefix
        if reading.blind or any(span.lower <= key < span.upper for key in reading.written):
            return
        table = self._tables.get(prefix)
        if not latest and (table is None or not table.since <= span.since >= table.touched):
            return
        if table is not None and table.maker != maker:
            self._forget(prefix)
            table = None
        if (table.size if table is not None else 0) + span.size > self._max_bytes >> 1:
            return
        if table is None:
            table = self._tables[prefix] = _Table(maker, span.since)
            table.touched = max(reading.written.values(), default=0)
        for other in [other for other in table.spans if other.lower < span.upper and span.lower < other.upper]:
            table.drop(other)
            self._size -= other.size
        insort(table.spans, span, key=_lower)
        table.size += span.size
        self._size += span.size
        self._tables.move_to_end(prefix)
        while self._size > self._max_bytes:
            self._forget(next(iter(self._tables)))

    def _forget(self, prefix: str) -> None:
        self._size -= self._tables.pop(prefix).size


@runtime_checkable
class OffersSpans(Protocol):
    """A driver that sees every write of the store before anybody else does."""

    @property
    def spans(self) -> Spans:
        """What is kept of ranges."""
        ...


def spans_of(storage: Storage) -> Spans | None:
    """The store's spans; None where somebody else may write to it."""
    return storage.spans if isinstance(storage, OffersSpans) else None
