"""`HotKeys`: a cache of recently read and written keys.

A database read takes about 3 us in a loop, and 20 us and more in a server, where other work has replaced the processor's caches since the
last read. Only one process writes the file, so a cached key is valid until this process writes it. The writer drops a key before it changes
it, and a key that is being written is not cached again before its commit has finished.
"""

from __future__ import annotations

from collections import OrderedDict

from kcp_py.storage.contract import KeyValue


class HotKeys:
    """Bounded by number and by bytes. The oldest entries are evicted."""

    def __init__(self, *, max_keys: int, max_bytes: int) -> None:
        # Not a dict, which finds its first key slowly when many keys before it were removed.
        self._items: OrderedDict[str, KeyValue] = OrderedDict()
        self._bytes = 0
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._writing: set[str] = set()
        self._states: dict[str, tuple[int, int]] = {}
        self.state = self._states.get
        """The state of a key from `remember_state`; None if it is not cached."""
        self.get = self._items.get
        """The current key and value, or None if it is not cached."""

    def __len__(self) -> int:
        return len(self._items)

    def remember(self, item: KeyValue) -> None:
        """Cache a key that was just read from the last committed state."""
        if item.key not in self._writing:
            self._keep(item)

    def remember_state(self, key: str, state: tuple[int, int]) -> None:
        """Cache the state of a key that transactions compare, such as the object of the cluster of a create."""
        if key not in self._writing:
            self._keep_state(key, state)

    def writing(self, key: str) -> None:
        """Drop a key that is going to be changed in a transaction that is not committed yet."""
        self._writing.add(key)
        self._states.pop(key, None)
        item = self._items.pop(key, None)
        if item is not None:
            self._bytes -= len(item.value)

    def written(self, item: KeyValue, state: tuple[int, int]) -> None:
        """Cache a key and its state, which were committed."""
        self._keep(item)
        self._keep_state(item.key, state)

    def committed(self) -> None:
        """Record that the transactions finished, successfully or not."""
        self._writing.clear()

    def clear(self) -> None:
        """Drop everything: a commit with an unknown outcome may have changed keys that were read since."""
        self._items.clear()
        self._states.clear()
        self._writing.clear()
        self._bytes = 0

    def _keep(self, item: KeyValue) -> None:
        key, size = item.key, len(item.value)
        if size > self._max_bytes >> 4:
            return
        items = self._items
        if key in items:
            self._bytes -= len(items.pop(key).value)
        items[key] = item
        self._bytes += size
        while len(items) > self._max_keys or self._bytes > self._max_bytes:
            self._bytes -= len(items.popitem(last=False)[1].value)

    def _keep_state(self, key: str, state: tuple[int, int]) -> None:
        if len(self._states) >= self._max_keys:
            self._states.clear()
        self._states[key] = state
