"""`ClusterBudget`: the memory that the caches of all logical clusters may take together.

Each cache states what its entry of a cluster takes. When the sum exceeds the budget, the clusters that were not used for longest are
evicted: from every cache at once, since a cluster that is not used needs none of its entries. The next request of such a cluster reads
them from the store again.

Eviction is not invalidation. It removes values that are valid, and leaves alone what a cache notes about writes and loads under way: a
load that began before the eviction may keep its outcome exactly when it could have kept it without.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

DEFAULT_BYTES: Final = 128 * 1024 * 1024
_TURN_SECONDS: Final = 0.001
"""How long clusters are evicted before other tasks have their turn."""
_BOOKKEEPING: Final = 160
"""What the budget itself keeps for an entry of a cache, in bytes."""


class Shared(Protocol):
    """A value that the entries of several clusters refer to, compared by identity. It is counted once, for as long as one of them does."""

    @property
    def memory(self) -> int:
        """Bytes; the same at each call."""
        ...


class Cost:
    """A `Shared` that stands for the memory of a value, for holders that do not all refer to the value itself."""

    __slots__ = ("memory",)

    def __init__(self, memory: int) -> None:
        self.memory: Final = memory


class Part(Generic[K]):
    """What one cache keeps, by its keys: logical clusters, or what several of them have in common."""

    __slots__ = ("_budget", "_drop", "_shared", "_sizes", "name")

    def __init__(self, budget: ClusterBudget, name: str, drop: Callable[[K], object]) -> None:
        self._budget = budget
        self._drop = drop
        self._sizes: dict[K, int] = {}
        self._shared: dict[K, Collection[Shared]] = {}
        self.name: Final = name

    def __len__(self) -> int:
        return len(self._sizes)

    def hold(self, key: K, size: int, shared: Collection[Shared] = ()) -> None:
        """Count an entry, which must be in its cache already; a count of the same key is replaced. It is a use of the key.

        Entries of other keys may be evicted before this returns.

        Args:
            key: the logical cluster.
            size: bytes of what belongs to this entry alone.
            shared: what it has in common with others, each once.
        """
        budget = self._budget
        before = self._shared.pop(key, ())
        if shared:
            # The new ones first: most of them are among the old ones.
            budget.share(shared)
            self._shared[key] = shared
        budget.unshare(before)
        size += _BOOKKEEPING
        budget.resize(key, size - self._sizes.get(key, 0))
        self._sizes[key] = size
        budget.use(key)
        budget.shrink()

    def release(self, key: K) -> None:
        """The cache has removed an entry, if it had one."""
        size = self._sizes.pop(key, 0)
        if not size:
            return
        budget = self._budget
        budget.unshare(self._shared.pop(key, ()))
        budget.resize(key, -size)

    def clear(self) -> None:
        """The cache has removed all entries."""
        for key in list(self._sizes):
            self.release(key)

    def evict(self, key: K) -> None:
        """Have the cache remove an entry, if it has one."""
        if key in self._sizes:
            dropped = self._drop(key)
            if isinstance(dropped, list):
                self._budget.let_go(dropped)
            self.release(key)

    @property
    def size(self) -> int:
        """Bytes of all entries, without shared values."""
        return sum(list(self._sizes.values()))


class ClusterBudget:
    """A bound for the memory of the caches of all clusters. For one thread, but for the figures.

    The key that was used last is always kept, whatever it takes: a cluster that is larger than the whole budget would otherwise be read for
    each of its requests. So the caches take at most the budget and one cluster.
    """

    def __init__(self, capacity: int = DEFAULT_BYTES) -> None:
        """Begin empty. `capacity` is in bytes; with 0 only the cluster that was used last is kept."""
        self.capacity: Final = capacity
        self.size = 0
        """Bytes of all entries and of what they share, as estimated by their caches."""
        self.evictions = 0
        """How many clusters were evicted."""
        self._keys: OrderedDict[Hashable, int] = OrderedDict()
        """Bytes by key, the least recently used first."""
        self.use_present: Final = self._keys.move_to_end
        """`use` of a key that has an entry, which each request calls. A method of the dictionary itself costs no further call."""
        self._shared: dict[Shared, list[int]] = {}
        """Shared value -> how many entries refer to it, and its bytes."""
        self._parts: list[Part[Any]] = []
        self._waiting = False
        """Whether the rest of an eviction waits for its turn."""
        self._leaving: list[list[object]] = []
        """Evicted values that are not freed yet."""

    def __len__(self) -> int:
        """How many keys have entries."""
        return len(self._keys)

    def part(self, name: str, drop: Callable[[K], object]) -> Part[K]:
        """Count the entries of a cache.

        Args:
            name: of the cache, for metrics. Several caches may have the same.
            drop: removes the entry of a key from the cache, if there is one. It is called synchronously, must not raise and must not await.
                If it returns a list, the values in it are freed one by one, in turns with other tasks: thousands of definitions take long.
        """
        part = Part[K](self, name, drop)
        self._parts.append(part)
        return part

    def use(self, key: Hashable) -> None:
        """Note that the entries of a key are used."""
        if key in self._keys:
            self._keys.move_to_end(key)

    def evict(self, key: Hashable) -> None:
        """Have all caches remove their entries of a key that is not used any more, such as a deleted cluster."""
        for part in self._parts:
            part.evict(key)
        self.shrink()

    def sizes(self) -> Mapping[tuple[str, ...], float]:
        """Bytes by the name of the cache, and of shared values. May be called from any thread."""
        found: dict[tuple[str, ...], float] = {}
        for part in self._parts:
            found[part.name,] = found.get((part.name,), 0.0) + part.size
        found["shared",] = float(sum(size for _, size in list(self._shared.values())))
        return found

    # For parts

    def resize(self, key: Hashable, change: int) -> None:
        """Add to what a key takes. A key that takes nothing is forgotten."""
        self.size += change
        size = self._keys.get(key, 0) + change
        if size:
            self._keys[key] = size
        else:
            self._keys.pop(key, None)

    def share(self, values: Collection[Shared]) -> None:
        """Count shared values of one more entry."""
        for value in values:
            counted = self._shared.get(value)
            if counted is None:
                counted = self._shared[value] = [0, value.memory]
                self.size += counted[1]
            counted[0] += 1

    def unshare(self, values: Collection[Shared]) -> None:
        """The opposite of `share`."""
        for value in values:
            counted = self._shared[value]
            counted[0] -= 1
            if not counted[0]:
                self.size -= counted[1]
                del self._shared[value]

    def let_go(self, values: list[object]) -> None:
        """Free evicted values, which nothing else needs to refer to."""
        self._leaving.append(values)

    def shrink(self) -> None:
        """Evict keys while the budget is exceeded: for a millisecond now, the others in turns with other tasks."""
        if (self.size <= self.capacity and not self._leaving) or self._waiting:
            return
        end = time.perf_counter() + _TURN_SECONDS
        while self._step():
            if time.perf_counter() >= end and self._wait():
                return

    def _step(self) -> bool:
        """Free one value, or evict one key. False where nothing is left to do."""
        if self._leaving:
            values = self._leaving[-1]
            if values:
                values.pop()
            else:
                self._leaving.pop()
            return True
        if self.size <= self.capacity or len(self._keys) <= 1:
            return False
        self.evictions += 1
        key = next(iter(self._keys))
        for part in self._parts:
            part.evict(key)
        return True

    def _wait(self) -> bool:
        """Go on after other tasks. False where there are none."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self._waiting = True
        loop.call_soon(self._go_on)
        return True

    def _go_on(self) -> None:
        self._waiting = False
        self.shrink()
