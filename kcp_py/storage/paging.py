"""`read_pages`: everything below a prefix, page by page, without damaged values."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from kcp_py.storage.contract import DamagedError, KeyValue, Storage


class Page(NamedTuple):
    """A part of a range."""

    items: Sequence[KeyValue]
    """In key order."""
    damaged: Sequence[str]
    """Keys whose values cannot be read. The driver has logged them."""
    revision: int
    """The revision that was read."""


async def read_pages(storage: Storage, prefix: str, *, limit: int, start: str = "", revision: int = 0) -> AsyncGenerator[Page, None]:
    """Read a range in pages, for callers that serve many clusters together.

    Args:
        storage: the store.
        prefix: of the keys.
        limit: the number of keys of a page.
        start: leave out keys before this one.
        revision: to read. With 0 each page is the latest state: follow the changes, too.

    Raises:
        StorageError: any error except damage of single keys.
    """
    while True:
        damaged: Sequence[str] = ()
        try:
            found = await storage.range(prefix, start=start, limit=limit, revision=revision)
        except DamagedError as error:
            if error.found is None:
                raise
            found, damaged = error.found, error.keys
            if found.more and not found.items and not damaged:
                # It is not known where the next page would begin.
                raise
        yield Page(found.items, damaged, found.revision)
        if not found.more:
            return
        start = max((*(item.key for item in found.items[-1:]), *damaged)) + "\x00"
