"""`Pages`: the rest of lists of computed objects, for clients that read them page by page.

All pages are of the state at the first one. They are kept in the memory of this server for five minutes, within a bound on all of them
together; a client that comes later, or to another server, gets 410 and lists again. Where the bound is reached, the owner with the most
objects gives up its least recently read list: an owner that keeps less than others loses nothing to them.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors

KEPT_SECONDS: Final = 300.0
MOST_OBJECTS: Final = 50_000
"""In all lists together that are read page by page. A list that is longer than half of that is answered whole."""
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
    owner: object
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
        self._lists: OrderedDict[str, _Kept] = OrderedDict()
        """In the order in which they expire."""
        self._owners: dict[object, OrderedDict[str, int]] = {}
        """Owner -> its lists, the least recently read one first -> their lengths."""
        self._objects: dict[object, int] = {}
        """Owner -> objects in its lists."""
        self._total = 0

    def first(self, owner: object, scope: object, items: Sequence[dict[str, Any]], version: int, limit: int) -> Page:
        """The first page of a list; the rest is kept.

        Args:
            owner: to whose account the list is kept: the logical cluster, or the user of a list over all clusters.
            scope: equal for requests that may read the rest: collection, selectors and user.
            items: the whole list.
            version: its resourceVersion.
            limit: objects of a page; 0 for all.
        """
        if not limit or len(items) <= limit or not self._make_room(owner, len(items)):
            return Page(items, version)
        identity = secrets.token_urlsafe(18)
        self._lists[identity] = _Kept(owner, scope, items, version, self._now() + KEPT_SECONDS)
        self._owners.setdefault(owner, OrderedDict())[identity] = len(items)
        self._objects[owner] = self._objects.get(owner, 0) + len(items)
        self._total += len(items)
        return self._page(identity, items, version, 0, limit)

    def _make_room(self, owner: object, size: int) -> bool:
        """Whether a list can be kept. Lists go for that: of owners that keep more than its owner would keep then, or else of its owner."""
        now = self._now()
        while self._lists and (oldest := next(iter(self._lists.items())))[1].until < now:
            self._drop(oldest[0])
        half = self._most_objects // 2
        if size > half:
            return False
        while self._total + size > self._most_objects or self._objects.get(owner, 0) + size > half:
            mine = self._objects.get(owner, 0)
            most = owner if mine + size > half else max(self._objects, key=self._objects.__getitem__)
            if self._objects[most] <= mine + size:
                most = owner
            if most not in self._owners:
                return False
            self._drop(next(iter(self._owners[most])))
        return True

    def _drop(self, identity: str) -> None:
        kept = self._lists.pop(identity)
        lists = self._owners[kept.owner]
        del lists[identity]
        self._objects[kept.owner] -= len(kept.items)
        self._total -= len(kept.items)
        if not lists:
            del self._owners[kept.owner], self._objects[kept.owner]

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
            self._drop(identity)
            kept = None
        if kept is None or kept.scope != scope:
            raise errors.expired(_EXPIRED)
        self._owners[kept.owner].move_to_end(identity)
        return self._page(identity, kept.items, kept.version, int(offset), limit or len(kept.items))

    @staticmethod
    def _page(identity: str, items: Sequence[dict[str, Any]], version: int, offset: int, limit: int) -> Page:
        end = offset + limit
        remaining = max(0, len(items) - end)
        return Page(items[offset:end], version, f"{end}.{identity}" if remaining else "", remaining)
