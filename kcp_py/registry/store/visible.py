"""`Visible`: the clusters of a read over all clusters, and the reader that leaves the others out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.logicalcluster import Name
from kcp_py.request.sight import Sight
from kcp_py.storage.contract import KeyValue, RangeResult, Storage, prefix_end, readable
from kcp_py.storage.keys import ResourceKeys

_AT_ONCE: Final = 8
"""Clusters that are read at the same time, where a read is for single ones."""
_LEAST_READ: Final = 500
"""Objects that a read over all clusters asks for at least, since it passes over some of them."""


class Visible(NamedTuple):
    """The clusters of a read over all clusters."""

    sees: Callable[[str], bool]
    """Whether a cluster is one of them."""
    few: Collection[str] | None = None
    """Their names, if each is to be read by itself. Some of them may not exist."""


ALL_VISIBLE: Final = Visible(lambda _cluster: True)
NONE_VISIBLE: Final = Visible(lambda _cluster: False, ())


def visible_at(sight: Sight, revision: int) -> Visible:
    """The clusters in sight of a read at a revision."""
    return ALL_VISIBLE if sight.unrestricted else Visible(sight.at(revision), sight.few(revision))


class Window(NamedTuple):
    """The part of a list that is read."""

    start: str
    limit: int
    """0 for everything."""
    revision: int
    max_bytes: int


class VisibleReader:
    """Collects the stored objects of visible clusters until a page is full and another one is known to follow, or to the end.

    `more` depends on visible objects alone: a page says nothing about others. For the same reason nothing is counted.
    """

    def __init__(self, storage: Storage, keys: ResourceKeys, visible: Visible, window: Window) -> None:
        """Prepare to read the objects of one resource."""
        self._storage = storage
        self._keys = keys
        self._visible = visible
        self._window = window
        self._size = 0
        self.items: list[KeyValue] = []
        self.more = False

    async def read(self) -> None:
        """Read one page.

        Raises:
            StorageError: compacted or future revision, store unavailable.
        """
        await (self._read_all() if self._visible.few is None else self._read_each(self._visible.few))

    async def _read_all(self) -> None:
        """Read all clusters, and pass over those that are not visible."""
        prefix, start = self._keys.prefix, self._window.start
        sees, cluster_at = self._visible.sees, self._keys.cluster_at
        turns = TimeSlice()
        current, visible = "\x00", False
        while True:
            found = await self._range(prefix, start)
            kept = []
            for item in found.items:
                key = item.key
                if not key.startswith(current):
                    current = key[: key.index("/", len(prefix)) + 1]
                    # Custom resources with the name of a built-in resource have another segment in the place of the cluster.
                    cluster = cluster_at(key)
                    visible = bool(cluster) and sees(cluster)
                if visible:
                    kept.append(item)
            if self._take(kept) or not found.more:
                return
            start = found.items[-1].key + "\x00"
            await turns.yield_if_due()

    async def _read_each(self, names: Collection[str]) -> None:
        """Read the clusters one by one, some of them at once."""
        start = self._window.start
        prefixes = sorted(self._keys.cluster_prefix(Name(name)) for name in names if self._visible.sees(name))
        left = [prefix for prefix in prefixes if prefix_end(prefix) > start]
        for at in range(0, len(left), _AT_ONCE):
            together = left[at : at + _AT_ONCE]
            found = await asyncio.gather(*(self._range(prefix, start) for prefix in together))
            for prefix, first in zip(together, found, strict=True):
                page = first
                while not self._take(page.items):
                    if not page.more:
                        break
                    page = await self._range(prefix, page.items[-1].key + "\x00")
                else:
                    return

    async def _range(self, prefix: str, start: str) -> RangeResult:
        window = self._window
        limit = window.limit and max(window.limit - len(self.items) + 1, _LEAST_READ)
        # A damaged object is an error in its own cluster alone.
        return await readable(self._storage.range(prefix, start=start, limit=limit, revision=window.revision, max_bytes=window.max_bytes))

    def _take(self, items: Sequence[KeyValue]) -> bool:
        """Add visible items. Returns whether the page is complete."""
        window = self._window
        if not window.limit:
            self.items += items
            return False
        size = sum(len(item.value) for item in items)
        if len(self.items) + len(items) <= window.limit and self._size + size <= window.max_bytes:
            self.items += items
            self._size += size
            return False
        for item in items:
            if len(self.items) >= window.limit or self._size > window.max_bytes:
                self.more = True
                return True
            self.items.append(item)
            self._size += len(item.value)
        return False
