"""`ClusterCache`: values that are computed from a logical cluster's stored objects, for as long as they are certain to be valid.

A store shows a commit to readers, on this server and on others, before its writer gets the answer, and the feed delivers it later still.
A client that has read the new state may rely on it at once, with a request that arrives before either. So the value of a cluster is not
cached while a write of objects that it depends on is under way, and data that was read in that time is never kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget, Shared

V = TypeVar("V")


class ClusterCache(Generic[V]):
    """One value per cluster, loaded on demand; kept values count against the budget that all caches share.

    A `WriteObserver`: register it with `Access.observe` for the resource that the values are worked out from. Changes by other servers,
    and writes that go around `Access`, come as `invalidate` from the feed, and as `clear` where the feed may have missed some.
    """

    def __init__(
        self,
        load: Callable[[Name], Awaitable[V]],
        *,
        budget: ClusterBudget,
        name: str,
        weigh: Callable[[Name, V], int],
        shared: Callable[[V], Collection[Shared]] | None = None,
    ) -> None:
        """Make an empty cache.

        Args:
            load: works the value of a cluster out. None is returned like any other value, and not remembered.
            budget: of the memory of all caches.
            name: of the cache, for metrics.
            weigh: the bytes of the value of a cluster.
            shared: what the value has in common with those of other clusters.
        """
        self._load_value = load
        self._weigh = weigh
        self._shared = shared
        self._values: dict[Name, V] = {}
        self._part = budget.part(name, self._evict)
        self.cached: Callable[[Name], V | None] = self._values.get
        """The value of a cluster if it is cached, otherwise None. It counts as a use where a subclass says so: the state of the cluster,
        which each request needs, does."""
        self.peek: Final = self._values.get
        """`cached`, without counting as a use."""
        self._followers: list[Callable[[], None]] = []
        self._loading: dict[Name, object] = {}
        """The latest load of a cluster, unless something happened since it began that makes its outcome doubtful."""
        self._writing: Counter[Name] = Counter()

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._values)

    async def get(self, cluster: Name) -> V:
        """The value, loaded if it is not at hand. Whatever `load` raises is raised, and nothing is remembered."""
        value = self.cached(cluster)
        if value is not None:
            return value
        token = object()
        self._loading[cluster] = token
        try:
            value = await self._load_value(cluster)
        finally:
            unchanged = self._loading.get(cluster) is token
            if unchanged:
                del self._loading[cluster]
        if unchanged and value is not None and not self.is_writing(cluster):
            self._values[cluster] = value
            self._part.hold(cluster, self._weigh(cluster, value), self._shared(value) if self._shared is not None else ())
            self._announce()
        return value

    def follow(self, changed: Callable[[], None]) -> None:
        """Have a function called when the value of any cluster was loaded, or became doubtful."""
        self._followers.append(changed)

    def _announce(self) -> None:
        for changed in self._followers:
            changed()

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write of what the cluster's value depends on begins. Several may be under way; each ends with `written`."""
        self._writing[cluster] += 1
        self._note(cluster, keys)

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        self._writing[cluster] -= 1
        if not self._writing[cluster]:
            del self._writing[cluster]
        self._note(cluster, keys)

    def is_writing(self, cluster: Name) -> bool:
        """Whether a write of what the cluster's value depends on is under way."""
        return cluster in self._writing

    def invalidate(self, cluster: Name) -> None:
        """Forget a cluster: what its value depends on has changed, or the cluster is gone."""
        self._note(cluster, ())

    def _note(self, cluster: Name, keys: Sequence[str]) -> None:
        """Objects under these keys may have changed; under any key, if there are none."""
        del keys
        self._evict(cluster)
        self._loading.pop(cluster, None)
        self._announce()

    def _evict(self, cluster: Name) -> None:
        """Keep the value of a cluster no longer. It is valid: loads under way may still keep theirs."""
        if self._values.pop(cluster, None) is not None:
            self._part.release(cluster)

    def clear(self) -> None:
        """Forget all clusters: changes may have been missed."""
        self._values.clear()
        self._part.clear()
        self._loading.clear()
        self._announce()
