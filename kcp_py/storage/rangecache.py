"""`RangeCache`: a cache of rendered contiguous ranges of keys. A write of a key drops its range.

Reading a list of thousands of objects takes milliseconds, and rendering it takes as long. Most repeated lists have changed little.
Therefore their bytes are cached in spans of some hundred keys. A write drops the one span that contains its key, and the next list reads
only that span.

Cached spans are never stale. A driver with spans calls `writing` for each key *before* the write becomes visible, and `committed` when the
write is acknowledged or has failed. `writing` drops the span of the key, and no span with this key is kept before `committed`. A reader
that fills spans opens a `reading` before it reads. The reading records all writes from then on, and spans with these keys are not kept.

A span is valid for every revision from `since`, at which it was read, until now.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, starmap
from operator import attrgetter
from typing import Final, Protocol, runtime_checkable

from kcp_py.aio.lru import LRU
from kcp_py.storage.contract import Storage

_MOST_WRITING: Final = 1_000
"""The number of keys being written that are searched. With more keys every prefix counts as being written."""
_MOST_COUNTS: Final = 256
"""The number of ranges with a cached number of keys, which is the number of lists that can be read in pages concurrently."""
_KEY_OVERHEAD: Final = 64
"""Bytes that a key takes in addition to its characters."""
_FORM_OVERHEAD: Final = 8
"""Bytes that an element of another form takes in addition to its own."""


class Span:
    """The rendered elements of the keys in [lower, upper), in key order, each preceded by a comma, or by nothing."""

    __slots__ = ("_ends", "_gap", "data", "forms", "keys", "labels", "lower", "since", "size", "upper")

    def __init__(
        self, lower: str, upper: str, since: int, keys: Sequence[str], elements: Sequence[bytes], *, separator: bytes = b","
    ) -> None:
        self.lower = lower
        self.upper = upper
        self.since = since
        self.keys = keys
        self.data = separator.join((b"", *elements))
        self._gap = len(separator)
        self._ends = array("Q", accumulate(map(len, elements)))
        self.size = len(self.data) + sum(map(len, keys)) + _KEY_OVERHEAD * len(keys)
        """The approximate number of bytes in memory."""
        self.labels: Sequence[bytes] | None = None
        """The labels of the elements, once a selector needed them."""
        self.forms: dict[Hashable, Span] = {}
        """These objects in other forms, such as protobuf. They are as new as this span, and are dropped with it, or before it."""

    def element(self, position: int) -> bytes:
        """One element, without its comma."""
        before = (position + 1) * self._gap
        return self.data[(self._ends[position - 1] if position else 0) + before : self._ends[position] + before]

    def elements(self) -> list[bytes]:
        """All elements, without their commas."""
        return list(map(self.data.__getitem__, starmap(slice, self.bounds())))

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Where each element begins and ends in `data`."""
        gap = self._gap
        start = gap
        for position, end in enumerate(self._ends, start=1):
            yield start, end + position * gap
            start = end + (position + 1) * gap

    def part(self, first: int, end: int) -> bytes:
        """The elements from the position `first` on, up to `end` (exclusive)."""
        if first >= end:
            return b""
        if first == 0 and end == len(self.keys):
            return self.data
        begin = self._ends[first - 1] + first * self._gap if first else 0
        return self.data[begin : self._ends[end - 1] + end * self._gap]

    def only(self, positions: Sequence[int]) -> Span:
        """The elements at these positions, as a span of the same range."""
        keys, elements = [self.keys[position] for position in positions], [self.element(position) for position in positions]
        return Span(self.lower, self.upper, self.since, keys, elements, separator=b"," if self._gap else b"")


_lower: Final = attrgetter("lower")


class _Table:
    """The spans of one prefix, disjoint and in order."""

    __slots__ = ("forms", "maker", "since", "size", "spans", "touched")

    def __init__(self, maker: Hashable, since: int) -> None:
        self.maker = maker
        self.forms: OrderedDict[Hashable, None] = OrderedDict()
        """The names of the forms that spans have, the least recently used one first."""
        self.since = since
        """The revision from which every write below the prefix is recorded."""
        self.touched = 0
        """The revision of the last recorded write, or a later revision."""
        self.spans: list[Span] = []
        self.size = 0

    def at(self, key: str) -> Span | None:
        position = bisect_right(self.spans, key, key=_lower) - 1
        if position < 0:
            return None
        span = self.spans[position]
        return span if key < span.upper else None

    def behind(self, key: str) -> Span | None:
        """The first span that begins after a key."""
        position = bisect_right(self.spans, key, key=_lower)
        return self.spans[position] if position < len(self.spans) else None

    def drop(self, span: Span) -> None:
        del self.spans[bisect_left(self.spans, span.lower, key=_lower)]
        self.size -= span.size

    def drop_forms(self, wanted: Hashable, size: int, limit: int) -> int:
        """Drop forms, those of the least recently used names first, until so many more bytes fit into a limit.

        Args:
            wanted: the name of forms that stay.
            size: bytes to be added.
            limit: of the size.

        Returns:
            The bytes that were freed.
        """
        before = self.size
        for name in [name for name in self.forms if name != wanted] if self.size + size > limit else ():
            for span in self.spans:
                if self.size + size <= limit:
                    return before - self.size
                form = span.forms.pop(name, None)
                if form is not None:
                    span.size -= _size_of_form(form)
                    self.size -= _size_of_form(form)
            del self.forms[name]
        return before - self.size


def _size_of_form(form: Span) -> int:
    # Keys are shared with the span.
    return len(form.data) + _FORM_OVERHEAD * len(form.keys)


class Reading:
    """One reader of a prefix, opened before it reads."""

    __slots__ = ("blind", "prefix", "written")

    def __init__(self, prefix: str, written: dict[str, int], *, blind: bool) -> None:
        self.prefix = prefix
        self.written = written
        """The keys that were written since it was opened, or were being written then, with their latest revision."""
        self.blind = blind
        """Whether writes may be missing in `written`, so that no span is kept."""


class RangeCache:
    """The cache of all spans, bounded in bytes. One prefix takes three quarters at most, and the least recently used prefix is evicted."""

    def __init__(self, *, max_bytes: int, shared: bool = False) -> None:
        """Create an empty cache.

        Args:
            max_bytes: the bound.
            shared: whether other processes write to the store and compact it, so that the driver hears of their writes afterwards.
        """
        self.shared = shared
        self._max_bytes = max_bytes
        self._tables: OrderedDict[str, _Table] = OrderedDict()
        self._shortest = 0
        """No prefix with spans has fewer characters."""
        self._size = 0
        self._writing: dict[str, int] = {}
        self._readings: set[Reading] = set()
        self._compacted = 0
        self._counts: LRU[tuple[str, str, int], int] = LRU(_MOST_COUNTS)

    @property
    def size(self) -> int:
        """The approximate number of bytes in use."""
        return self._size

    # Called by the driver

    def writing(self, key: str, revision: int) -> None:
        """Record that a key is going to be changed at this revision, unless the write fails."""
        self._writing[key] = revision
        for reading in self._readings:
            if key.startswith(reading.prefix):
                reading.written[key] = revision
        if not self._tables:
            return
        end = key.find("/", max(1, self._shortest - 1))
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
        """Record that all writes finished, successfully or not. Called before the callers receive their results."""
        if self._writing:
            self._writing = {}

    def compacted(self, revision: int) -> None:
        """Record that earlier revisions were compacted."""
        self._compacted = revision

    def clear(self) -> None:
        """Drop all spans, because another process may write from now on."""
        for reading in self._readings:
            reading.blind = True
        self._tables.clear()
        self._counts.clear()
        self._size = 0

    # Called by readers

    def settled(self, prefix: str) -> bool:
        """Whether no key below a prefix is being written, so that all visible writes are acknowledged."""
        return len(self._writing) <= _MOST_WRITING and not any(key.startswith(prefix) for key in self._writing)

    def is_read(self, prefix: str) -> bool:
        """Whether a `reading` is open for what lies below a prefix."""
        return any(prefix.startswith(reading.prefix) for reading in self._readings)

    def find(self, prefix: str, maker: Hashable, key: str, revision: int) -> Span | None:
        """The span that contains the position of a key, if it is valid for a revision.

        Args:
            prefix: the prefix of the span.
            maker: the renderer of its elements.
            key: the position.
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
        """The number of keys in [lower, upper) at a revision; -1 if it is not cached."""
        number = self._counts.get((lower, upper, revision))
        return -1 if number is None else number

    def counted(self, lower: str, upper: str, revision: int, number: int) -> None:
        """Cache the number of keys. Old revisions do not change, and the next page of a list needs the same number."""
        self._counts.set((lower, upper, revision), number)

    def next_lower(self, prefix: str, maker: Hashable, key: str) -> str:
        """The lower bound of the first span after a key; empty without such a span."""
        table = self._tables.get(prefix)
        span = table.behind(key) if table is not None and table.maker == maker else None
        return span.lower if span is not None else ""

    @contextmanager
    def reading(self, prefix: str) -> Iterator[Reading]:
        """A context around a read below a prefix and the `keep` of its result."""
        blind = len(self._writing) > _MOST_WRITING
        written = {} if blind else {key: revision for key, revision in self._writing.items() if key.startswith(prefix)}
        reading = Reading(prefix, written, blind=blind)
        self._readings.add(reading)
        try:
            yield reading
        finally:
            self._readings.discard(reading)

    def keep(self, reading: Reading, maker: Hashable, span: Span, *, latest: bool) -> None:
        """Keep a span unless it may be stale.

        Args:
            reading: opened before the span was read. All keys of the span begin with its prefix, which ends with a slash.
            maker: the renderer of the elements. One prefix has spans of one renderer.
            span: the result of the read at the revision `since`.
            latest: whether `since` was the latest revision while this reading was open, instead of a requested revision.
        """
        prefix = reading.prefix
        # A shared store reports writes afterwards, so those up to the revision of the span are part of it.
        seen = span.since if self.shared else -1
        if reading.blind or any(span.lower <= key < span.upper and revision > seen for key, revision in reading.written.items()):
            return
        table = self._tables.get(prefix)
        if not latest and (table is None or not table.since <= span.since >= table.touched):
            return
        if table is not None and table.maker != maker:
            self._forget(prefix)
            table = None
        if table is not None:
            if not self._fits(table, None, span.size):
                return
            self._size -= table.drop_forms(None, span.size, self._max_bytes // 4 * 3)
        elif span.size > self._max_bytes // 4 * 3:
            return
        if table is None:
            self._shortest = min(self._shortest, len(prefix)) if self._tables else len(prefix)
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

    def form(self, prefix: str, span: Span, key: Hashable) -> Span | None:
        """A kept form of a span.

        Args:
            prefix: the prefix of the span.
            span: what the form was made of.
            key: names the form.
        """
        found = span.forms.get(key)
        if found is not None and (table := self._tables.get(prefix)) is not None and key in table.forms:
            table.forms.move_to_end(key)
        return found

    def keep_form(self, prefix: str, span: Span, key: Hashable, form: Span) -> None:
        """Keep another form of a span, as long as the span is cached, if there is room without the other forms of its prefix.

        Args:
            prefix: the prefix of the span.
            span: what the form was made of.
            key: names the form.
            form: has the keys of the span.
        """
        table, size = self._tables.get(prefix), _size_of_form(form)
        if table is None or key in span.forms or table.at(span.lower) is not span or not self._fits(table, key, size):
            return
        self._size -= table.drop_forms(key, size, self._max_bytes // 4 * 3)
        span.forms[key] = form
        table.forms[key] = None
        table.forms.move_to_end(key)
        span.size += size
        table.size += size
        self._size += size
        self._tables.move_to_end(prefix)
        while self._size > self._max_bytes:
            self._forget(next(iter(self._tables)))

    def has_room(self, prefix: str, span: Span, key: Hashable) -> bool:
        """Whether a form of a span can probably be kept: the span is cached, and its prefix has room without other forms."""
        table = self._tables.get(prefix)
        if table is None or table.at(span.lower) is not span:
            return False
        # The form of an object is rarely larger than its JSON. The forms of other objects give a better estimate.
        size = len(span.data) + _FORM_OVERHEAD * len(span.keys)
        if self._fits(table, key, size):
            return True
        others = [(len(other.data), _size_of_form(other.forms[key])) for other in table.spans if key in other.forms]
        whole = sum(data for data, _ in others)
        return bool(whole) and self._fits(table, key, size * sum(form for _, form in others) // whole)

    def _fits(self, table: _Table, key: Hashable, size: int) -> bool:
        """Whether so many bytes fit into the share of a prefix without other forms than those of a name."""
        free = self._max_bytes // 4 * 3 - table.size - size
        if free < 0:
            free += sum(_size_of_form(form) for other in table.spans for name, form in other.forms.items() if name != key)
        return free >= 0

    def _forget(self, prefix: str) -> None:
        self._size -= self._tables.pop(prefix).size


@runtime_checkable
class HasRangeCache(Protocol):
    """A driver that processes every write of the store before it becomes visible."""

    @property
    def range_cache(self) -> RangeCache:
        """The cached spans."""
        ...


def range_cache_of(storage: Storage) -> RangeCache | None:
    """The spans of a store, or None if another process may write to it."""
    return storage.range_cache if isinstance(storage, HasRangeCache) else None
