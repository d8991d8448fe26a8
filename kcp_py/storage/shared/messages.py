"""The messages between the owner of a store and its other processes, as bytes.

A message is its length (4 bytes, of what follows), its kind (1 byte) and its fields. Numbers are little endian; a text or value is its
length (4 bytes) and its bytes. Both sides are forks of one process, so there are no versions of the messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    DamagedError,
    Delete,
    Event,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Operation,
    Put,
    RangeResult,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)

TRANSACT: Final = 1
"""To the owner: id, compares, operations."""
CHECK: Final = 2
"""To the owner: id."""
COMPACT: Final = 3
"""To the owner: id, revision."""
CANCEL: Final = 4
"""To the owner: id of a transaction whose caller has gone."""
FOLLOW: Final = 5
"""To the owner: id, first revision. Asks for the events of the whole store."""
DONE: Final = 6
"""From the owner: id, revision."""
FAILED: Final = 7
"""From the owner: id, error."""
EVENTS: Final = 8
"""From the owner: revision, whether a batch ends here, events."""

ASK: Final = 9
"""From the owner: id. Asks for the report of a process."""
REPORT: Final = 10
"""To the owner: id, a report."""
COLLECT: Final = 11
"""To the owner: id. Asks for the reports of all other processes."""
COLLECTED: Final = 12
"""From the owner: id, reports."""

HEAD: Final = struct.Struct("<IB")
NUMBER: Final = struct.Struct("<Q")
_LENGTH: Final = struct.Struct("<I")
_PAIR: Final = struct.Struct("<QQ")
_DONE: Final = struct.Struct("<QQ")
_COUNTED: Final = struct.Struct("<QI")
_COMPARE: Final = struct.Struct("<BQQ")
_EVENT: Final = struct.Struct("<QQBI")
_EVENTS: Final = struct.Struct("<Q?I")
_PREVIOUS: Final = struct.Struct("<QQ")
_FOUND: Final = struct.Struct("<Q?q")

_HAS_MOD: Final = 1
_HAS_CREATE: Final = 2
_NEVER: Final = (1 << 64) - 1
"""In place of a revision that no key can have."""
_HAS_VALUE: Final = 1
_HAS_PREVIOUS: Final = 2

_TEXT_ERRORS: Final[Sequence[type[StorageError]]] = (StorageError, UnavailableError, UnknownOutcomeError, NoSpaceError)
"""Errors that are a text and nothing else; the position is the code."""
_CONFLICT: Final = 16
_COMPACTED: Final = 17
_FUTURE: Final = 18
_DAMAGED: Final = 19


def message(kind: int, *fields: bytes) -> bytes:
    """A whole message."""
    return b"".join((HEAD.pack(1 + sum(map(len, fields)), kind), *fields))


def _blob(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _text(text: str) -> bytes:
    return _blob(text.encode("utf-8", "surrogatepass"))


def _revision(number: int) -> int:
    """A number of a client, which may be none that a revision can have."""
    return number if 0 <= number < _NEVER else _NEVER


def transact_message(number: int, compares: Sequence[Compare], operations: Sequence[Operation]) -> bytes:
    """`TRANSACT`."""
    parts = [_COUNTED.pack(number, len(compares))]
    for compare in compares:
        mod, create = compare.mod_revision, compare.create_revision
        flags = (_HAS_MOD if mod is not None else 0) | (_HAS_CREATE if create is not None else 0)
        parts += (_text(compare.key), _COMPARE.pack(flags, _revision(mod or 0), _revision(create or 0)))
    parts.append(_LENGTH.pack(len(operations)))
    for operation in operations:
        # A value is never empty.
        parts += (_text(operation.key), _blob(operation.value if isinstance(operation, Put) else b""))
    return message(TRANSACT, *parts)


def number_message(kind: int, *numbers: int) -> bytes:
    """A message of numbers alone."""
    return message(kind, *map(NUMBER.pack, numbers))


def done_message(number: int, revision: int) -> bytes:
    """`DONE`."""
    return message(DONE, _DONE.pack(number, revision))


def failed_message(number: int, error: StorageError) -> bytes:
    """`FAILED`. An error of a class that is not the contract's becomes a `StorageError` with its text."""
    return message(FAILED, NUMBER.pack(number), _error(error))


def events_message(events: Sequence[Event], revision: int, *, is_last: bool) -> bytes:
    """`EVENTS`: a part of a batch."""
    parts = [_EVENTS.pack(revision, is_last, len(events))]
    for event in events:
        key, value, previous = event.key.encode(), event.value, event.previous
        flags = (_HAS_VALUE if value is not None else 0) | (_HAS_PREVIOUS if previous is not None else 0)
        parts += (_EVENT.pack(event.mod_revision, event.create_revision, flags, len(key)), key)
        if value is not None:
            parts += (_LENGTH.pack(len(value)), value)
        if previous is not None:
            parts += (_PREVIOUS.pack(previous.mod_revision, previous.create_revision), _LENGTH.pack(len(previous.value)), previous.value)
    return message(EVENTS, *parts)


def reports_message(kind: int, number: int, reports: Sequence[bytes]) -> bytes:
    """`REPORT`, which has one report, or `COLLECTED`."""
    return message(kind, _COUNTED.pack(number, len(reports)), *map(_blob, reports))


class Fields:
    """The fields of a received message, read in order."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """The next number."""
        (number,) = NUMBER.unpack_from(self._data, self._at)
        self._at += NUMBER.size
        return int(number)

    def transaction(self) -> tuple[int, list[Compare], list[Operation]]:
        """The fields of `TRANSACT`."""
        number, count = self._unpack(_COUNTED)
        compares = []
        for _ in range(count):
            key = self._text()
            flags, mod, create = self._unpack(_COMPARE)
            compares.append(Compare(key, mod if flags & _HAS_MOD else None, create if flags & _HAS_CREATE else None))
        operations: list[Operation] = []
        for _ in range(self._length()):
            key = self._text()
            value = self._blob()
            operations.append(Put(key, value) if value else Delete(key))
        return number, compares, operations

    def reports(self) -> tuple[int, list[bytes]]:
        """The fields of `REPORT` and `COLLECTED`."""
        number, count = self._unpack(_COUNTED)
        return number, [self._blob() for _ in range(count)]

    def done(self) -> tuple[int, int]:
        """The fields of `DONE`."""
        number, revision = self._unpack(_DONE)
        return number, revision

    def failed(self) -> tuple[int, StorageError]:
        """The fields of `FAILED`."""
        return self.number(), self._error()

    def events(self) -> tuple[int, bool, list[Event]]:
        """The fields of `EVENTS`."""
        revision, is_last, count = self._unpack(_EVENTS)
        events = []
        for _ in range(count):
            mod, create, flags, length = self._unpack(_EVENT)
            key = self._take(length).decode()
            value = self._blob() if flags & _HAS_VALUE else None
            previous = None
            if flags & _HAS_PREVIOUS:
                previous_mod, previous_create = self._unpack(_PREVIOUS)
                previous = KeyValue(key, self._blob(), previous_mod, previous_create)
            events.append(Event(key, value, mod, create, previous))
        return revision, is_last, events

    def _unpack(self, shape: struct.Struct) -> tuple[Any, ...]:
        fields = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return fields

    def _length(self) -> int:
        (length,) = self._unpack(_LENGTH)
        return int(length)

    def _take(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def _blob(self) -> bytes:
        return self._take(self._length())

    def _text(self) -> str:
        return self._blob().decode("utf-8", "surrogatepass")

    def _key_value(self) -> KeyValue:
        key, value = self._text(), self._blob()
        mod, create = self._unpack(_PAIR)
        return KeyValue(key, value, mod, create)

    def _error(self) -> StorageError:
        (code,) = self._take(1)
        if code < len(_TEXT_ERRORS):
            return _TEXT_ERRORS[code](self._text())
        return _READERS[code](self)

    def _conflict(self) -> StorageError:
        key = self._text()
        return ConflictError(key, self._key_value() if self._take(1) == b"\1" else None)

    def _compacted(self) -> StorageError:
        return CompactedError(*self._unpack(_PAIR))

    def _future(self) -> StorageError:
        return FutureRevisionError(*self._unpack(_PAIR))

    def _damaged(self) -> StorageError:
        keys = [self._text() for _ in range(self._length())]
        found = None
        if self._take(1) == b"\1":
            revision, more, total = self._unpack(_FOUND)
            found = RangeResult([self._key_value() for _ in range(self._length())], revision, more, total)
        return DamagedError(keys, found)


_READERS: Final[dict[int, Callable[[Fields], StorageError]]] = {
    _CONFLICT: Fields._conflict,  # noqa: SLF001 - of this module
    _COMPACTED: Fields._compacted,  # noqa: SLF001
    _FUTURE: Fields._future,  # noqa: SLF001
    _DAMAGED: Fields._damaged,  # noqa: SLF001
}


def _key_value(item: KeyValue) -> bytes:
    return _text(item.key) + _blob(item.value) + _PAIR.pack(item.mod_revision, item.create_revision)


def _error(error: StorageError) -> bytes:
    match error:
        case ConflictError():
            current = b"\0" if error.current is None else b"\1" + _key_value(error.current)
            return bytes((_CONFLICT,)) + _text(error.key) + current
        case CompactedError():
            return bytes((_COMPACTED,)) + _PAIR.pack(error.revision, error.compact_revision)
        case FutureRevisionError():
            return bytes((_FUTURE,)) + _PAIR.pack(error.revision, error.current)
        case DamagedError():
            parts = [bytes((_DAMAGED,)), _LENGTH.pack(len(error.keys)), *map(_text, error.keys)]
            if error.found is None:
                return b"".join((*parts, b"\0"))
            found = error.found
            parts += (b"\1", _FOUND.pack(found.revision, found.more, found.total), _LENGTH.pack(len(found.items)))
            return b"".join((*parts, *map(_key_value, found.items)))
        case _:
            # From the last to the first: a class stands behind the one that it is derived from.
            code = next(code for code in reversed(range(len(_TEXT_ERRORS))) if isinstance(error, _TEXT_ERRORS[code]))
            return bytes((code,)) + _text(str(error))
