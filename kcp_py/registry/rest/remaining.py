"""`Remaining`: how many objects follow a page of a list over all clusters.

Counting takes time in proportion to the number: a third of a second for a million objects, for each page, and the number changes with each
write. So objects are counted up to a bound, and lists with more behind a page leave `remainingItemCount` out, which clients must not
rely on. (Upstream: `ListMeta`, "the intended use of the remainingItemCount is estimating the size of a collection. Clients should not
rely on the remainingItemCount to be set or to be exact.")
"""

from __future__ import annotations

from typing import Final

from kcp_py.aio.lru import LRU
from kcp_py.storage.contract import Storage
from kcp_py.storage.counting import count_keys
from kcp_py.storage.keys import ResourceKeys

MOST_COUNTED: Final = 10_000
_PLACES: Final = 1_000
"""Pages whose rest is remembered."""

_Place = tuple[str, int, str]
"""Prefix of the resource, revision of the list, and the first key of a page."""


class Remaining:
    """Counts once for many pages: a list that is continued stays at its revision, at which nothing changes."""

    def __init__(self, storage: Storage) -> None:
        """Count in a store."""
        self._storage = storage
        self._known: LRU[_Place, tuple[int, bool]] = LRU(_PLACES)
        """Objects from a place on, and whether that is all of them, rather than a part."""

    async def behind(self, keys: ResourceKeys, revision: int, start: str, *, taken: int, following: str) -> int:
        """The number of objects behind a page that others follow; -1 where it is more than `MOST_COUNTED`.

        Args:
            keys: of the resource.
            revision: of the list.
            start: the first key of the page; empty for the first page.
            taken: how many objects the page has.
            following: the first key of the next page.

        Raises:
            StorageError: the store cannot be read.
        """
        number, exact = self._known.get((keys.prefix, revision, start)) or (0, False)
        number -= taken
        if not exact and number < taken:
            storage, foreign = self._storage, keys.foreign_prefix
            number = await count_keys(storage, keys.prefix, start=following, most=MOST_COUNTED, revision=revision)
            exact = number <= MOST_COUNTED
            if foreign:
                number -= await count_keys(storage, foreign, start=following, most=MOST_COUNTED, revision=revision)
            self._known.set((keys.prefix, revision, start), (number + taken, exact))
        self._known.set((keys.prefix, revision, following), (number, exact))
        return number if exact else -1
