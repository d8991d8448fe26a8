"""Reading a list as its answered bytes: spliced, and kept in spans where the store can tell when they are outdated.

Each span belongs to one cluster (the prefix of its keys is part of the place) and to one form of one resource. Default objects of a cluster
are kept in spans. Those of its namespaces come and go with writes of other keys: they are put between the elements of spans for each list.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.resource import Served
from kcp_py.registry.store.access import Access
from kcp_py.registry.store.defaults import crd_revision_at, default_items, with_defaults
from kcp_py.registry.store.forms import Form, in_form
from kcp_py.registry.store.labels import labels_of
from kcp_py.registry.store.namespacedefaults import count_visible, namespace_items_at
from kcp_py.registry.store.read import load
from kcp_py.registry.store.scan import Scan
from kcp_py.storage.contract import KeyValue, prefix_end
from kcp_py.storage.rangecache import Reading, Span

_READ: Final = 500
"""Objects read, spliced and kept at once: a millisecond or two of the event loop, and the memory is used again for the next ones."""
_READ_AFAR: Final = 2_000
"""Objects read at once where spans are not kept, and the store may be behind a network."""
_REREAD: Final = 600
"""Objects read to fill a gap that a write left in front of a span: enough for added objects, and no tiny spans remain."""
_LEAST_KEPT: Final = 50
"""Objects of a span: fewer are read from the store as fast."""
_DECODED_PER_TURN: Final = 200
_CONVERTED_AT_ONCE: Final = 500
"""Objects to convert go to a webhook, whose latency depends little on their number."""


class RenderedPage(NamedTuple):
    """A part of a list."""

    parts: list[bytes]
    """Elements, one behind the other, each led by a comma, or by nothing where the form separates its elements by nothing."""
    last: str
    """The key of the last element; empty where there is none."""
    revision: int
    more: bool
    remaining: int
    """How many objects remain behind the last one; -1 where that was not asked for."""


class _Limits(NamedTuple):
    """The rest of a page that is still to be read: the object that exceeds the bytes is its last."""

    items: int
    """0 for any number."""
    bytes: int


class _ListRange(NamedTuple):
    """A range of objects, in one form."""

    access: Access
    served: Served
    cluster_state: ClusterState
    prefix: str
    """Of the keys that are listed."""
    kept: str
    """Of the keys whose spans are kept together: all of the cluster."""
    upper: str
    defaults: Sequence[KeyValue]
    """What the cluster has by default of the keys that are listed, in order. Something stored may be in their places."""
    form: Form | None
    """What elements are turned into; None for JSON objects."""

    @property
    def maker(self) -> tuple[object, ...]:
        # Default objects follow from their cluster and their CRD, which bring no writes of their own keys.
        return self.served.resource.renderer, self.served.fresh_since, self.cluster_state.uid, self.cluster_state.terminating

    def span(self, key: str, revision: int) -> Span | None:
        range_cache = self.access.range_cache
        return range_cache.find(self.kept, self.maker, key, revision) if range_cache is not None else None


def can_render(served: Served, what: Scan) -> bool:
    """Whether `render` can answer: for one cluster, and not for what a CRD brings by default at a revision that was asked for."""
    if what.cluster_state is None:
        return False
    return not what.revision or served.origin is None or not _defaults_from(served, what.cluster_state, what.start)


def _defaults_from(served: Served, cluster_state: ClusterState, start: str) -> list[KeyValue]:
    return [item for item in default_items(served, cluster_state) if item.key >= start]


async def render(access: Access, served: Served, what: Scan, form: Form | None = None) -> RenderedPage:
    """Read a page of one resource in one cluster (see `can_render`) as the elements of a list.

    Args:
        access: to the store.
        served: the resource.
        what: which objects.
        form: what elements are turned into; None for JSON objects.

    Raises:
        StorageError: compacted or future revision, store unavailable.
        StaleStateError: the CRD that default objects come with was written since the resource was worked out.
    """
    cluster_state = what.cluster_state
    assert cluster_state is not None
    keys = served.resource.keys
    kept = keys.cluster_prefix(cluster_state.name)
    prefix = keys.namespace_prefix(cluster_state.name, what.namespace) if what.namespace else kept
    defaults = [item for item in _defaults_from(served, cluster_state, what.start) if item.key.startswith(prefix)]
    listed = _ListRange(access, served, cluster_state, prefix, kept, prefix_end(prefix), defaults, form)
    range_cache = access.range_cache
    with range_cache.reading(kept) if range_cache is not None else nullcontext() as reading:
        page = await _render(listed, what, reading)
    origin = served.origin
    if defaults and origin is not None and await crd_revision_at(access.storage, origin, page.revision) != origin.revision:
        raise StaleStateError(served.guards[0].key)
    return page


async def _render(listed: _ListRange, what: Scan, reading: Reading | None) -> RenderedPage:
    upper, limit = listed.upper, what.limit
    lower = max(what.start, listed.prefix)
    revision, trusted = await _beginning(listed, lower, what.revision)
    page: _Page | None = None
    turns = TimeSlice()
    while True:
        count, size = (page.count, page.size) if page is not None else (0, 0)
        span = listed.span(lower, revision) if trusted else None
        elements: Sequence[bytes] | None = None
        if span is None:
            if page is not None:
                await asyncio.sleep(0)
            # Of the objects that are read, a selector may choose few.
            wanted = _Limits(limit - count if limit and what.labels is None else 0, max(what.max_bytes - size, 0))
            span, elements = await _read(listed, lower, wanted, revision, reading=reading, latest=not what.revision)
            revision, trusted = span.since, True
        if page is None:
            page = await _begin_page(listed, what, lower, revision)
        if what.labels is not None:
            await turns.yield_if_due()
            page.hide(span)
        if listed.form is not None:
            chosen = range(len(span.keys)) if what.labels is None else what.labels.positions(span)
            room = limit - page.count if limit else 0
            span = await in_form(
                listed.access.range_cache,
                listed.kept,
                listed.form,
                span,
                chosen,
                window=(lower, upper, room),
                elements=elements,
            )
        elif what.labels is not None:
            span = what.labels.part_of(span)
        first, cut = bisect_left(span.keys, lower), bisect_left(span.keys, upper)
        until = span.upper if cut == len(span.keys) else upper
        whole = page.take(span, first, cut, until)
        # A full page ends behind its last element, whether or not a selector chooses any of the objects behind that.
        lower = until if whole and not (what.labels is not None and limit and page.count >= limit) else page.last + "\x00"
        if lower >= upper:
            return RenderedPage(page.parts, page.last, revision, more=False, remaining=0 if what.counted and not listed.defaults else -1)
        if limit and (page.count >= limit or page.size > what.max_bytes):
            more, remaining = await _rest(listed, what, page, lower, revision)
            return RenderedPage(page.parts, page.last, revision, more=more, remaining=remaining)


class _Page:
    """A page that is being filled."""

    __slots__ = ("_at", "_elements", "_form", "_limit", "_separator", "count", "last", "namespace_items", "parts", "size", "stored")

    def __init__(self, limit: int, namespace_items: Sequence[KeyValue] = (), elements: Sequence[bytes] = (), *, form: Form | None) -> None:
        """Begin a page.

        Args:
            limit: elements at the most; 0 for any number.
            namespace_items: default objects of namespaces from the first key of the page on, in order. Something stored may be in their
                places.
            elements: of these objects.
            form: of the elements; None for JSON objects.
        """
        self._form = form
        self._separator = b"," if form is None else form.separator
        self._limit = limit
        self.namespace_items = namespace_items
        self._elements = elements
        self._at = 0
        self.parts: list[bytes] = []
        self.count = 0
        self.stored = 0
        """How many of the elements come from spans."""
        self.size = 0
        self.last = ""

    def hide(self, span: Span) -> None:
        """Drop default objects in whose places something is stored, which the elements taken from a span may not show."""
        until = bisect_left(self.namespace_items, span.upper, self._at, key=_key)
        shown = [at for at in range(self._at, until) if not _holds(span, self.namespace_items[at].key)]
        if len(shown) < until - self._at:
            rest = (*shown, *range(until, len(self.namespace_items)))
            self._elements, self._at = [self._elements[at] for at in rest], 0
            self.namespace_items = [self.namespace_items[at] for at in rest]

    def take(self, span: Span, first: int, cut: int, until: str) -> bool:
        """Add the elements of a span between two positions, with the default objects between them and up to the key `until`.

        Returns:
            Whether all of them have a place in the page.
        """
        items = self.namespace_items
        while True:
            key = items[self._at].key if self._at < len(items) else until
            place = cut if key >= until else bisect_left(span.keys, key, first, cut)
            end = min(place, first + self._limit - self.count) if self._limit else place
            if end > first:
                self._add(span.part(first, end), span.keys[end - 1], end - first)
                self.stored += end - first
            if key >= until and end == cut:
                return True
            if self._limit and self.count >= self._limit:
                return False
            if place == cut or span.keys[place] != key:
                self._add(self._separator + self._elements[self._at], key, 1)
            self._at += 1
            first = place

    def _add(self, part: bytes, last: str, count: int) -> None:
        if self._form is not None:
            part = self._form.shown(part)
        self.parts.append(part)
        self.size += len(part)
        self.count += count
        self.last = last


async def _begin_page(listed: _ListRange, what: Scan, lower: str, revision: int) -> _Page:
    """An empty page, with the default objects of namespaces that may come into it."""
    resource = listed.served.resource
    if resource.namespace_object is None or not resource.lists_defaults:
        return _Page(what.limit, form=listed.form)
    limit = what.limit if what.labels is None else 0
    items = await namespace_items_at(
        listed.access, resource, listed.cluster_state, revision, namespace=what.namespace, start=lower, limit=limit
    )
    elements, _ = await _elements(listed, items)
    if what.labels is not None:
        chosen = [at for at, element in enumerate(elements) if what.labels.selects(labels_of(element))]
        items, elements = [items[at] for at in chosen], [elements[at] for at in chosen]
    if listed.form is None:
        return _Page(what.limit, items, elements, form=None)
    return _Page(what.limit, items, await listed.form.elements(elements), form=listed.form)


async def _rest(listed: _ListRange, what: Scan, page: _Page, lower: str, revision: int) -> tuple[bool, int]:
    """What lies behind a full page: whether there is anything, and how many objects; -1 where that is not known."""
    items = [item for item in page.namespace_items if item.key >= lower]
    if not what.counted or listed.defaults:
        # What a default object hides behind is not counted.
        more = bool(items) or any(item.key >= lower for item in listed.defaults)
        return more or await _behind(listed, lower, revision, counted=False) > 0, -1
    range_cache, upper = listed.access.range_cache, listed.upper
    together = range_cache.count(max(what.start, listed.prefix), upper, revision) if range_cache is not None else -1
    behind = together - page.stored if together >= 0 else await _behind(listed, lower, revision, counted=True)
    if range_cache is not None:
        range_cache.counted(page.last + "\x00", upper, revision, behind)
    visible = await count_visible(listed.access, items, revision)
    return behind > 0 or visible != 0, behind + visible if visible >= 0 else -1


async def _beginning(listed: _ListRange, lower: str, asked: int) -> tuple[int, bool]:
    """The revision of a list, and whether kept spans may answer at it; 0 where only a read can tell the latest one."""
    range_cache = listed.access.range_cache
    if range_cache is None:
        return asked, False
    storage = listed.access.storage
    current = await storage.revision()
    if asked:
        if range_cache.shared:
            # Kept spans do not show that another server has compacted the revision: an empty range does.
            await storage.range(listed.prefix, start=listed.upper, limit=1, revision=asked, keys_only=True)
        return asked, asked <= current
    # While a write is on its way others may have seen it already: what came before it must not be answered behind their backs.
    span = listed.span(lower, 0) if range_cache.settled(listed.kept) else None
    return (max(current, span.since), True) if span is not None else (0, False)


async def _read(
    listed: _ListRange, lower: str, wanted: _Limits, revision: int, *, reading: Reading | None, latest: bool
) -> tuple[Span, list[bytes]]:
    """Read a span that begins at `lower` from the store, and keep it. The second part are its elements."""
    range_cache = listed.access.range_cache
    following = range_cache.next_lower(listed.kept, listed.maker, lower) if range_cache is not None else ""
    upper = min(following, listed.upper) if following else listed.upper
    limit = _READ_AFAR if range_cache is None else _READ if upper == listed.upper else _REREAD
    limit = min(wanted.items, limit) if wanted.items else limit
    found = await listed.access.storage.range(listed.prefix, start=lower, limit=limit, revision=revision, max_bytes=wanted.bytes)
    items = found.items
    if items and items[-1].key >= upper:
        items = items[: bisect_left(items, upper, key=_key)]
    elif found.more:
        upper = items[-1].key + "\x00"
    if listed.defaults:
        items = with_defaults(items, [item for item in listed.defaults if lower <= item.key < upper])
    keys = [item.key for item in items]
    elements, spliced = await _elements(listed, items)
    span = Span(lower, upper, found.revision, keys, elements)
    if range_cache is not None and reading is not None and spliced and len(items) >= _LEAST_KEPT:
        range_cache.keep(reading, listed.maker, span, latest=latest)
    return span, elements


def _holds(span: Span, key: str) -> bool:
    at = bisect_left(span.keys, key)
    return at < len(span.keys) and span.keys[at] == key


def _key(item: KeyValue) -> str:
    return item.key


async def _elements(listed: _ListRange, items: Sequence[KeyValue]) -> tuple[list[bytes], bool]:
    """The elements of stored objects, and whether all were spliced."""
    resource, fresh_since = listed.served.resource, listed.served.fresh_since
    renderer, cluster = resource.renderer, listed.cluster_state.name
    splice = renderer.splicer(cluster, in_list=True)
    elements: list[bytes] = []
    unlike: list[int] = []
    for at, item in enumerate(items):
        element = splice(item) if item.mod_revision >= fresh_since else None
        if element is None:
            unlike.append(at)
            element = b""
        elements.append(element)
    step = _DECODED_PER_TURN if resource.converter is None else _CONVERTED_AT_ONCE
    for start in range(0, len(unlike), step):
        if start:
            await asyncio.sleep(0)
        places = unlike[start : start + step]
        for at, obj in zip(places, await load(listed.served, [items[at] for at in places]), strict=True):
            elements[at] = renderer.encode(renderer.add_server_fields(obj, items[at].mod_revision, cluster), in_list=True)
    return elements, not unlike


async def _behind(listed: _ListRange, lower: str, revision: int, *, counted: bool) -> int:
    """How many objects lie at or behind `lower`; where they need not be counted, at least whether there are any."""
    known = 0
    while lower < listed.upper:
        span = listed.span(lower, revision)
        if span is None:
            found = await listed.access.storage.range(listed.prefix, start=lower, limit=1, revision=revision, count=counted, keys_only=True)
            return known + (found.total if counted else len(found.items))
        known += bisect_left(span.keys, listed.upper) - bisect_left(span.keys, lower)
        if known and not counted:
            return known
        lower = span.upper
    return known
