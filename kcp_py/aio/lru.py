"""`LRU`: a mapping of bounded size that evicts the entries that were not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Bounded by the number of its entries or by their total weight. For one thread. Values must not be None."""

    __slots__ = ("_capacity", "_values", "_weigh", "_weight", "_weights", "peek")

    def __init__(self, capacity: int, *, weigh: Callable[[V], int] | None = None) -> None:
        """Create an empty mapping.

        Args:
            capacity: the number of entries, or the sum of their weights.
            weigh: the weight of a value, which must not change later. Without it each entry has the weight 1.
        """
        self._capacity = capacity
        self._weigh = weigh
        self._values: OrderedDict[K, V] = OrderedDict()
        self.peek: Final = self._values.get
        """The value of a key, without counting as a use. A method of the dictionary itself costs no further call."""
        self._weights: dict[K, int] = {}
        self._weight = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as a use."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def items(self) -> ItemsView[K, V]:
        """The entries, the least recently used first."""
        return self._values.items()

    def set(self, key: K, value: V) -> None:
        """Add or replace an entry. A value that is heavier than the whole capacity is not kept."""
        if self._weigh is not None:
            weight = self._weigh(value)
            if weight > self._capacity:
                self.pop(key)
                return
            self._weight += weight - self._weights.get(key, 0)
            self._weights[key] = weight
            self._values[key] = value
            self._values.move_to_end(key)
            while self._weight > self._capacity:
                gone, _ = self._values.popitem(last=False)
                self._weight -= self._weights.pop(gone)
            return
        values = self._values
        before = len(values)
        values[key] = value
        if len(values) == before:
            values.move_to_end(key)
        elif before >= self._capacity:
            values.popitem(last=False)

    def setdefault(self, key: K, value: V) -> V:
        """Add an entry unless the key has one. Returns the value of the key."""
        present = self.get(key)
        if present is not None:
            return present
        self.set(key, value)
        return value

    def pop(self, key: K) -> V | None:
        """Remove an entry, if it exists."""
        if self._weigh is not None:
            self._weight -= self._weights.pop(key, 0)
        return self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self._values.clear()
        self._weights.clear()
        self._weight = 0
