"""`Pages`: the rest of lists of computed objects, for clients that read them page by page.

All pages are of the state at the first one. They are kept in the memory of this server for five minutes, within a bound on all of them
together; a client that comes later, or to another server, gets 410 and lists again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery import errors

KEPT_SECONDS: Final = 300.0
MOST_OBJECTS: Final = 50_000
"""In all lists together that are read page by page. A longer list is answered whole."""
_EXPIRED: Final = "The provided continue parameter is too old to display a consistent list result. You can start a new list without it."


class Page(NamedTuple):
    """A part of a list."""

    items: Sequence[dict[str, Any]]
    version: int
    """The resourceVersion of the list."""
    token: str = ""
    """For the next page; empty on the last one."""
    remaining: int = 0


class _Kept(NamedTuple):
    scope: object
    items: Sequence[dict[str, Any]]
    version: int
    until: float


class Pages:
    """The lists that are being read."""

    def __init__(self, now: Callable[[], float], *, most_objects: int = MOST_OBJECTS) -> None:
        """Keep nothing yet.

        Args:
            now: seconds, monotonic.
            most_objects: the bound.
        """
        self._now = now
        self._most_objects = most_objects
        self._lists: LRU[str, _Kept] = LRU(most_objects, weigh=_weight)

    def first(self, scope: object, items: Sequence[dict[str, Any]], version: int, limit: int) -> Page:
        """The first page of a list; the rest is kept.

        Args:
            scope: equal for requests that may read the rest: collection, selectors and user.
            items: the whole list.
            version: its resourceVersion.
            limit: objects of a page; 0 for all.
        """
        if not limit or len(items) <= limit or len(items) > self._most_objects:
            return Page(items, version)
        identity = secrets.token_urlsafe(18)
        self._lists.set(identity, _Kept(scope, items, version, self._now() + KEPT_SECONDS))
        return self._page(identity, items, version, 0, limit)

    def next(self, scope: object, token: str, limit: int) -> Page:
        """A further page. The same token gives the same page again.

        Raises:
            StatusError: 400 for a malformed token, 410 for a list that is not kept any more, or is that of another request.
        """
        offset, _, identity = token.partition(".")
        if not identity or not (offset.isascii() and offset.isdigit() and len(offset) < 10):
            raise errors.bad_request("continue key is not valid")
        kept = self._lists.get(identity)
        if kept is not None and kept.until < self._now():
            self._lists.pop(identity)
            kept = None
        if kept is None or kept.scope != scope:
            raise errors.expired(_EXPIRED)
        return self._page(identity, kept.items, kept.version, int(offset), limit or len(kept.items))

    @staticmethod
    def _page(identity: str, items: Sequence[dict[str, Any]], version: int, offset: int, limit: int) -> Page:
        end = offset + limit
        remaining = max(0, len(items) - end)
        return Page(items[offset:end], version, f"{end}.{identity}" if remaining else "", remaining)


def _weight(kept: _Kept) -> int:
    return len(kept.items)
