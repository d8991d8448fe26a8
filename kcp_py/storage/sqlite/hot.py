"""`HotKeys`: the keys that were read lately, so that reading them again costs no visit to the database.

A visit costs about 3 us in a loop of nothing else, and 20 us and more in a server, where everything else has gone through the processor's
caches since the last one. One process writes the file, so a key is as remembered until this process writes it: the writer forgets a key
before it changes it, and a key that is being written is not remembered again until its commit is over.
"""

from __future__ import annotations

from kcp_py.storage.contract import KeyValue


class HotKeys:
    """Bounded by number and by bytes; the longest remembered give way."""

    def __init__(self, *, max_keys: int, max_bytes: int) -> None:
        self._items: dict[str, KeyValue] = {}
        self._bytes = 0
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._writing: set[str] = set()
        self._states: dict[str, tuple[int, int]] = {}
        self.state = self._states.get
        """Where a key stands, as `remember_state` was told; None where that is not remembered."""
        self.get = self._items.get
        """The key as it stands, or None where it is not remembered."""

    def __len__(self) -> int:
        return len(self._items)

    def remember(self, item: KeyValue) -> None:
        """Keep what was just read from the last committed state."""
        if item.key in self._writing or len(item.value) > self._max_bytes >> 4:
            return
        self._forget(item.key)
        self._items[item.key] = item
        self._bytes += len(item.value)
        while len(self._items) > self._max_keys or self._bytes > self._max_bytes:
            self._forget(next(iter(self._items)))

    def remember_state(self, key: str, state: tuple[int, int]) -> None:
        """Keep where a key stands that transactions compare, such as the cluster that everything new is written into."""
        if key not in self._writing:
            if len(self._states) >= self._max_keys:
                self._states.clear()
            self._states[key] = state

    def writing(self, key: str) -> None:
        """A key is about to be changed in a transaction that is not committed yet."""
        self._writing.add(key)
        self._states.pop(key, None)
        self._forget(key)

    def committed(self) -> None:
        """The transaction is over, this way or the other."""
        self._writing.clear()

    def _forget(self, key: str) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._bytes -= len(item.value)
