"""GET of a collection: revisions, pages, selectors, and the three forms of a list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import EXACT, ListOptions, decode_include_object, decode_list_options, parse_resource_version
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.selection import Selection, can_select
from kcp_py.registry.store import Page, RenderedPage, Scan, can_render, get, render, scan
from kcp_py.registry.store.access import holds
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import not_of_kind, representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.collection import list_encoding, list_head
from kcp_py.server.handlers.items import UNCONVERTED, Items
from kcp_py.server.handlers.listbudget import Share
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import LARGEST_PAGE_BYTES, CompactedError, KeyValue
from kcp_py.storage.keys import InvalidSegmentError

_WHOLE_LIST_CHUNK = 10_000
"""A list without limit is read in chunks of this many objects, all at one revision."""

_WHOLE_LIST_BYTES = 8 * 1024 * 1024
"""A chunk of large objects ends behind so many bytes of them: a list holds a small multiple of this at once, however long it is."""

_SELECTIVE_CHUNK = 500
"""A page with selectors is looked for in chunks of at least this many objects."""

_END = b"]}\n"

_LONGEST_REASON = 300
_MOST_WARNINGS = 5
"""Clusters that are named one by one where objects are left out."""

_DECODED_AT_ONCE = 200
"""So many selected objects are handed on together: thousands of decoded ones take long to free and to be looked through for garbage."""

_ITEMS_PER_TURN = 200
"""After so many items other requests get a turn of the event loop: a few milliseconds at the most."""


def list_options(exchange: Exchange, target: Target) -> ListOptions:
    """The options of the query.

    Raises:
        StatusError: 400, 422.
    """
    del target
    return decode_list_options(exchange.query)


async def selectable(backend: Backend, target: Target, options: ListOptions) -> Target:
    """Over all clusters, the target by the definition of a cluster whose objects can be selected by the fields asked for, if there is one.

    In clusters whose definitions have no such field, nothing is selected.
    """
    if target.scope is not None or not target.served.per_cluster or can_select(options, target.resource):
        return target
    resource = target.resource
    found = await backend.wildcard.find(
        resource.group, resource.version, resource.resource, accept=lambda other: can_select(options, other)
    )
    return target if found is None else target._replace(served=found)


class Found(NamedTuple):
    """One selected item."""

    item: KeyValue
    served: Served
    cluster: Name
    obj: dict[str, Any] | None
    """Decoded, where the selection needed that."""


class Listing:
    """A list in progress: where it stands, at which revision, and what remains."""

    def __init__(self, backend: Backend, target: Target, options: ListOptions) -> None:
        """Work out the revision and the first key.

        Raises:
            StatusError: 400 for a foreign or broken continue token or an unusable resourceVersion; 410 for a revision before the
            cluster began.
        """
        self.backend = backend
        self.target = target
        self.options = options
        self.selection = Selection(options, target.resource)
        self.namespace = target.namespace if target.scope is None else ""
        """The one namespace of all clusters that is asked for: their keys have no common prefix."""
        self.selective = bool(self.namespace) or not self.selection.empty
        self.revision = 0
        """The revision of the list: 0 until the first page was read, where the latest is asked for."""
        self.start = ""
        self.more = False
        self.remaining = -1
        self._continued = bool(options.continue_token)
        self._confirmed = target.scope is None
        self._not_older_than = 0
        if self._continued:
            revision, self.start = backend.tokens.decode(options.continue_token, self._token_scope())
            self.revision = max(revision, 0)
        elif options.resource_version not in {"", "0"}:
            asked = parse_resource_version(options.resource_version)
            legacy_exact = bool(options.limit) and not options.resource_version_match
            if options.resource_version_match == EXACT or legacy_exact:
                self.revision = asked
            else:
                self._not_older_than = asked
        scope = target.scope
        if scope is not None and 0 < self.revision < scope.created_revision:
            raise errors.expired(errors.LIST_EXPIRED)

    def _token_scope(self) -> str:
        target = self.target
        cluster = target.scope.uid if target.scope is not None else "*"
        return f"{cluster}|{target.resource.keys.prefix}|{target.namespace}"

    def continue_token(self) -> str:
        """The token with which the next page is fetched."""
        return self.backend.tokens.encode(self._token_scope(), self.revision, self.start)

    async def page(self, limit: int, max_bytes: int = LARGEST_PAGE_BYTES) -> Page:
        """Read on.

        Args:
            limit: how many objects at the most.
            max_bytes: the object that goes beyond is the last.

        Raises:
            StatusError: 410 where the revision is no longer kept, 504 where it has not happened.
        """
        await self._check_age()
        await self._check_life()
        try:
            page = await scan(
                self.backend.access, self.target.served, self._next(limit, max_bytes), clusters=self.backend.serving(self.target.served)
            )
        except CompactedError as error:
            raise self._expired() from error
        await self.confirm()
        self._came_to(page, page.items[-1].key if page.items else "")
        return page

    @property
    def renderable(self) -> bool:
        """Whether all of the list is answered, and pages can be had as bytes."""
        return self.selection.empty and can_render(self.target.served, self._next(0, 0))

    async def rendered(self, limit: int, max_bytes: int = LARGEST_PAGE_BYTES) -> RenderedPage:
        """`page` as bytes.

        Raises:
            StatusError: as `page`.
        """
        await self._check_age()
        await self._check_life()
        try:
            page = await render(self.backend.access, self.target.served, self._next(limit, max_bytes))
        except CompactedError as error:
            raise self._expired() from error
        await self.confirm()
        self._came_to(page, page.last)
        return page

    def _next(self, limit: int, max_bytes: int) -> Scan:
        target = self.target
        return Scan(target.scope, target.namespace, self.start, limit, self.revision, bool(self.options.limit), max_bytes)

    async def _check_age(self) -> None:
        if self._not_older_than:
            current = await self.backend.access.storage.revision()
            if self._not_older_than > current:
                raise errors.too_large_resource_version(self._not_older_than, current)
            self._not_older_than = 0

    async def _check_life(self) -> None:
        """Refuse a revision at which a cluster that does not exist now did exist: it was another one of the same name."""
        scope = self.target.scope
        if self._confirmed or scope is None or scope.created_revision or not self.revision:
            return
        try:
            if await holds(self.backend.access.storage, scope.life, revision=self.revision):
                return
        except CompactedError as error:
            raise self._expired() from error
        raise errors.expired(errors.LIST_EXPIRED)

    async def confirm(self) -> None:
        """Check, after the first read, that the cluster is still the one that was asked for.

        Raises:
            StaleScopeError: it is not; nothing of what was read may be answered.
        """
        if not self._confirmed:
            assert self.target.scope is not None
            await self.backend.clusters.confirm(self.target.scope)
            self._confirmed = True

    def _came_to(self, page: Page | RenderedPage, last: str) -> None:
        self.revision = page.revision
        self.more = page.more
        self.remaining = page.remaining
        if last:
            self.start = last + "\x00"

    def stop_behind(self, item: KeyValue, *, more: bool) -> None:
        """Let the next page begin behind an item, before the end of what was read."""
        self.start = item.key + "\x00"
        self.more = more

    def _expired(self) -> StatusError:
        if not self._continued:
            return errors.expired(errors.LIST_EXPIRED)
        token = self.backend.tokens.encode(self._token_scope(), -1, self.start)
        return errors.expired(errors.INCONSISTENT_CONTINUE, continue_token=token)


async def matching(listing: Listing, items: Items, *, answered: bool = True) -> AsyncIterator[list[Found]]:
    """The selected items of a list, in portions, `limit` of them at the most.

    Args:
        listing: the list.
        items: how items are decoded.
        answered: whether the items will be answered; what somebody else has to convert for that is then converted, page by page.
    """
    limit = listing.options.limit
    selection = listing.selection
    target = listing.target
    chosen = size = 0
    full = False
    time_slice = TimeSlice()
    while True:
        if not limit and selection.names_only and (single := await _single(listing)) is not None:
            page = single
        elif not limit:
            page = await listing.page(_WHOLE_LIST_CHUNK, _WHOLE_LIST_BYTES)
        else:
            # A selection may leave little of a page: many small reads for one answer would cost more than what is read in vain.
            page = await (listing.page(max(limit, _SELECTIVE_CHUNK), _WHOLE_LIST_BYTES) if listing.selective else listing.page(limit))
        if selection.empty and target.scope is not None:
            # Nothing to choose: the page is what is answered.
            if page.items:
                objects: Sequence[dict[str, Any] | None] = ()
                if answered and target.resource.converter is not None:
                    objects = await items.converted([(item, target.served, target.scope.name) for item in page.items])
                yield [Found(item, target.served, target.scope.name, obj) for item, obj in zip_longest(page.items, objects)]
                del objects
            if not listing.more or limit:
                return
            # One page is freed before the next is read.
            del page
            continue
        found: list[Found] = []
        candidates = await _candidates(listing, items, page, answered=answered)
        for position, (item, served, cluster, converted) in enumerate(candidates, start=1):
            await time_slice.yield_if_due()
            obj = converted
            if not selection.empty:
                if obj is None:
                    obj = await items.decoded(item, served, cluster)
                if not selection.matches(obj, served.resource):
                    continue
            found.append(Found(item, served, cluster, obj))
            size += len(item.value)
            if limit and (chosen + len(found) >= limit or size > LARGEST_PAGE_BYTES):
                full = True
                listing.stop_behind(item, more=page.more or position < len(candidates))
                break
            if len(found) >= _DECODED_AT_ONCE:
                chosen += len(found)
                yield found
                found = []
        chosen += len(found)
        del page, candidates
        if found:
            yield found
        del found
        if not listing.more or full:
            return


async def _candidates(listing: Listing, items: Items, page: Page, *, answered: bool) -> list[Found]:
    """The items of a page that could be selected, those that somebody else converts converted."""
    target = listing.target
    found: list[tuple[KeyValue, Served, Name]] = []
    converts = False
    for position, item in enumerate(page.items, start=1):
        if position % _ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
        if listing.namespace and target.resource.keys.locate(item.key).namespace != listing.namespace:
            continue
        cluster = items.cluster_of(item)
        served = await items.served_in(cluster)
        if served is not None:
            found.append((item, served, cluster))
            converts = converts or served.resource.converter is not None
    objects: Sequence[dict[str, Any] | None] = ()
    needed = not listing.selection.empty
    if converts and (answered or needed):
        objects = await items.converted(found, needed=needed)
    return [Found(item, served, cluster, obj) for (item, served, cluster), obj in zip_longest(found, objects) if obj is not UNCONVERTED]


async def _single(listing: Listing) -> Page | None:
    """A list of one named object is a read of its key; None where that is not possible."""
    target = listing.target
    if target.scope is None or (target.resource.namespaced and not target.namespace) or listing.revision:
        return None
    revision = await listing.backend.access.storage.revision()
    listing.more = False
    try:
        item = await get(listing.backend.access, target.scope, target.served, target.namespace, listing.selection.name)
    except (StatusError, InvalidSegmentError):
        # No object has the name, or none can have it.
        items: list[KeyValue] = []
    else:
        items = [item]
        revision = max(revision, item.mod_revision)
    await listing.confirm()
    listing.revision = revision
    return Page(items, revision, more=False, remaining=-1)


async def matching_items(listing: Listing) -> AsyncIterator[Sequence[KeyValue]]:
    """The selected items themselves."""
    items = Items(listing.backend, listing.target, Representation())
    async for found in matching(listing, items, answered=False):
        yield [one.item for one in found]


async def list_objects(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer with the list, in one body as long as one chunk holds it, streamed beyond that.

    Raises:
        StatusError: 400, 406, 410, 422, 504.
    """
    representation = representation_of(exchange, target.resource, listed=True)
    options = list_options(exchange, target)
    target = await selectable(backend, target, options)
    include = decode_include_object(exchange.query)
    if representation.transform == "PartialObjectMetadata":
        raise not_of_kind(target.resource, representation.transform)
    listing = Listing(backend, target, options)
    items = Items(backend, target, representation, include)
    await items.find_columns()
    items.columns.freeze()
    cluster = str(target.scope.name) if target.scope is not None else "*"
    with backend.lists.share(cluster, target.resource.keys.prefix) as share:
        if representation.media != "json" or representation.pretty:
            await _answer_encoded(exchange, listing, items, representation, share=share)
        elif not representation.transform and listing.renderable:
            await _answer_rendered(exchange, listing, representation, share)
        else:
            await _answer_elements(exchange, listing, items, representation, share=share)


async def _answer_elements(exchange: Exchange, listing: Listing, items: Items, representation: Representation, *, share: Share) -> None:
    """The list element by element."""
    body = await _body_of_elements(exchange, listing, items, representation, share=share)
    if body:
        # Its client may take a minute to read it: nothing that it was made of is alive any more.
        await exchange.respond_in_parts(200, [body])


async def _body_of_elements(exchange: Exchange, listing: Listing, items: Items, representation: Representation, *, share: Share) -> bytes:
    """The whole answer; empty where it was streamed."""
    options = listing.options
    elements: list[bytes] = []
    size = 0
    streaming = False
    time_slice = TimeSlice()
    async for found in matching(listing, items):
        parts = await _elements(items, found, time_slice)
        elements += parts
        size += sum(map(len, parts))
        # What was sent must not be held by these names while the next portion is read.
        del found, parts
        share.hold(size, started=streaming)
        if streaming:
            elements[0] = b"," + elements[0]
        elif listing.more and not options.limit:
            streaming = True
            _warn(exchange, items)
            await exchange.start_stream()
            elements[0] = _compact_head(listing, representation, items.columns) + elements[0]
        if streaming:
            chunk = b",".join(elements)
            elements.clear()
            size = 0
            await exchange.send_chunk(chunk)
            del chunk
    if streaming:
        await exchange.send_chunk(_END)
        await exchange.finish()
        return b""
    if not listing.revision:
        listing.revision = await listing.backend.access.storage.revision()
    _warn(exchange, items)
    head = _compact_head(listing, representation, items.columns)
    if elements:
        # Joined once: a large list is copied no more often than it has to be.
        elements[0] = head + elements[0]
        elements[-1] += _END
    return b",".join(elements) if elements else head + _END


async def _elements(items: Items, found: Sequence[Found], time_slice: TimeSlice) -> list[bytes]:
    """The elements of one portion."""
    parts = await items.spliced([one.item for one in found])
    if parts is None:
        parts = []
        for one in found:
            parts.append(await items.element(one.item, one.served, one.cluster, one.obj))
            await time_slice.yield_if_due()
    return parts


async def _answer_encoded(exchange: Exchange, listing: Listing, items: Items, representation: Representation, *, share: Share) -> None:
    """The list in any form but compact JSON."""
    body = await _encoded_body(exchange, listing, items, representation, share=share)
    await exchange.respond_in_parts(200, [body], representation.content_type)


async def _encoded_body(exchange: Exchange, listing: Listing, items: Items, representation: Representation, *, share: Share) -> bytes:
    """The whole answer, made element by element, so that the event loop is not held up."""
    encoding = list_encoding(listing.target.resource, representation)
    elements: list[bytes] = []
    size = 0
    time_slice = TimeSlice()
    async for found in matching(listing, items):
        for one in found:
            document = await items.document(one.item, one.served, one.cluster, one.obj)
            try:
                elements.append(await encoding.element_offloaded(document, len(one.item.value)))
            except StatusError as error:
                if not items.wildcard:
                    raise
                items.left_out[one.cluster] = error
                continue
            size += len(elements[-1])
            await time_slice.yield_if_due()
        share.hold(size)
    if not listing.revision:
        listing.revision = await listing.backend.access.storage.revision()
    _warn(exchange, items)
    return b"".join(encoding.whole(_head(listing, representation, items.columns), elements))


def _warn(exchange: Exchange, items: Items) -> None:
    """Name, in warnings, clusters of which objects are left out."""
    for cluster, error in list(items.left_out.items())[:_MOST_WARNINGS]:
        exchange.warnings.append(f"objects of the logical cluster {cluster} are left out: {error.message[:_LONGEST_REASON]}")
    if len(items.left_out) > _MOST_WARNINGS:
        exchange.warnings.append(f"objects of {len(items.left_out) - _MOST_WARNINGS} more logical clusters are left out")


async def _answer_rendered(exchange: Exchange, listing: Listing, representation: Representation, share: Share) -> None:
    """The same for a list whose elements need not be looked at one by one."""
    limit = listing.options.limit
    parts = (await (listing.rendered(limit) if limit else listing.rendered(_WHOLE_LIST_CHUNK, _WHOLE_LIST_BYTES))).parts
    share.hold(sum(map(len, parts)))
    head = _compact_head(listing, representation)
    # The first comma is one too many. Parts are large, so that none is copied more than once.
    first = memoryview(parts[0])[1:] if parts else b""
    if not listing.more or limit:
        if len(parts) > 1:
            parts[0] = b"".join((head, first))
            parts[-1] += _END
        else:
            parts = [b"".join((head, first, _END))]
        del first
        await exchange.respond_in_parts(200, parts)
        return
    parts[0] = b"".join((head, first))
    del first
    await exchange.start_stream()
    await _send_parts(exchange, parts)
    while listing.more:
        parts = (await listing.rendered(_WHOLE_LIST_CHUNK, _WHOLE_LIST_BYTES)).parts
        share.hold(sum(map(len, parts)), started=True)
        await _send_parts(exchange, parts)
    await exchange.send_chunk(_END)
    await exchange.finish()


async def _send_parts(exchange: Exchange, parts: list[bytes]) -> None:
    """Send parts of a stream; each is freed when it was sent, before the next is read."""
    parts.reverse()
    while parts:
        await exchange.send_chunk(parts.pop())


def _head(listing: Listing, representation: Representation, columns: TableColumns | None = None) -> dict[str, Any]:
    """The list without its elements."""
    metadata: dict[str, Any] = {"resourceVersion": str(listing.revision)}
    if listing.options.limit and listing.more:
        metadata["continue"] = listing.continue_token()
        if not listing.selective and listing.remaining > 0:
            metadata["remainingItemCount"] = listing.remaining
    return list_head(listing.target.resource, representation, metadata, columns=columns.union if columns is not None else ())


def _compact_head(listing: Listing, representation: Representation, columns: TableColumns | None = None) -> bytes:
    """The list up to its first element."""
    key = "rows" if representation.transform == "Table" else "items"
    return orjson.dumps({**_head(listing, representation, columns), key: []})[:-2]
