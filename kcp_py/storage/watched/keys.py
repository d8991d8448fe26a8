"""`KnownKeys`: the keys of a store that were read or written last, kept current by the events of its watch."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from kcp_py.storage.contract import Event, KeyValue

_OVERHEAD: Final = 400
"""Approximate bytes that an entry takes in addition to its key and value."""
_LARGEST_SHARE: Final = 4
"""One value takes at most the bytes of all, shifted by this."""


class KnownKeys:
    """Bounded in bytes. The least recently used keys are evicted.

    An absent key is kept as a `KeyValue` with an empty value and a `create_revision` of 0, as stored values are never empty. Its
    `mod_revision` is a revision at which it was absent.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._items: OrderedDict[str, KeyValue] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    @property
    def size(self) -> int:
        """The approximate number of bytes in use."""
        return self._size

    def get(self, key: str) -> KeyValue | None:
        """The key as of the last event, which counts as a use; None if it is not known."""
        item = self._items.get(key)
        if item is not None:
            self._items.move_to_end(key)
        return item

    def apply(self, event: Event) -> None:
        """Record a change. Changes may be repeated, and may be older than the known state."""
        self.remember(
            KeyValue(event.key, b"", event.mod_revision, 0)
            if event.value is None
            else KeyValue(event.key, event.value, event.mod_revision, event.create_revision)
        )

    def remember(self, item: KeyValue) -> None:
        """Record a state of a key. The caller has seen no later one, except perhaps the recorded one."""
        key = item.key
        known = self._items.get(key)
        if known is not None:
            if known.mod_revision >= item.mod_revision:
                return
            del self._items[key]
            self._size -= _weight(known)
        weight = _weight(item)
        if weight > self._max_bytes >> _LARGEST_SHARE:
            return
        self._items[key] = item
        self._size += weight
        while self._size > self._max_bytes:
            self._size -= _weight(self._items.popitem(last=False)[1])

    def clear(self) -> None:
        """Drop everything."""
        self._items.clear()
        self._size = 0


def _weight(item: KeyValue) -> int:
    return len(item.key) + len(item.value) + _OVERHEAD
