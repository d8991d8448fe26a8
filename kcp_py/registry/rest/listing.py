"""Lists of stored objects: revisions, pages and selectors, in one cluster or over all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import EXACT, ListOptions, parse_resource_version
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.items import UNCONVERTED, AsStored, StoredItems
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.selection import Selection, can_select
from kcp_py.registry.store import Form, Page, RenderedPage, Scan, can_render, get, render, scan
from kcp_py.registry.store.access import holds
from kcp_py.registry.store.labels import labels_of
from kcp_py.registry.store.visible import ALL_VISIBLE, NONE_VISIBLE, visible_at
from kcp_py.registry.writerequest import Resolved
from kcp_py.storage.contract import LARGEST_PAGE_BYTES, CompactedError, KeyValue
from kcp_py.storage.keys import InvalidSegmentError

_WHOLE_LIST_CHUNK: Final = 10_000
"""A list without limit is read in chunks of this many objects, all at one revision."""

_WHOLE_LIST_BYTES: Final = 8 * 1024 * 1024
"""A chunk of large objects ends behind so many bytes of them: a list holds a small multiple of this at once, however long it is."""

_SELECTIVE_CHUNK: Final = 500
"""A page with selectors is looked for in chunks of at least this many objects."""

_DECODED_AT_ONCE: Final = 200
"""So many selected objects are handed on together: thousands of decoded ones take long to free and to be looked through for garbage."""


_PLACED_AT_ONCE: Final = 512
_LOOKED_AT_ONCE: Final = 16
"""Objects between two looks at the clock. Decoding one takes up to a fraction of a millisecond, or waits for a thread."""


class Selected(NamedTuple):
    """One selected item."""

    item: KeyValue
    served: Served
    cluster: Name
    obj: dict[str, Any] | None
    """Decoded, where the selection or a conversion needed that."""


async def selectable(registry: Registry, target: Resolved, options: ListOptions) -> Resolved:
    """Over all clusters, the target by the CRD of a cluster whose objects can be selected by the fields asked for, if there is one.

    In clusters whose CRDs have no such field, nothing is selected.
    """
    if target.only is not None or not target.served.per_cluster or can_select(options, target.resource):
        return target
    resource = target.resource
    found = await registry.wildcard.find(
        resource.group, resource.version, resource.resource, sight=target.sight, accept=lambda other: can_select(options, other)
    )
    return target if found is None else target._replace(served=found)


class Listing:
    """A list in progress: where it stands, at which revision, and what remains."""

    def __init__(self, registry: Registry, target: Resolved, options: ListOptions) -> None:
        """Work out the revision and the first key.

        Raises:
            StatusError: 400 for a foreign or broken continue token or an unusable resourceVersion; 410 for a revision before the
                cluster began.
        """
        self._registry = registry
        self.target = target
        self.options = options
        self.items: Final = StoredItems(registry, target)
        self.selection = Selection(options, target.resource)
        self.labels: Final = self.selection.labels
        self.namespace = target.namespace if target.only is None else ""
        """The one namespace of all clusters that is asked for: their keys have no common prefix."""
        self.selective = bool(self.namespace) or not self.selection.empty
        self.revision = 0
        """The revision of the list: 0 until the first page was read, where the latest is asked for."""
        self.start = ""
        self.more = False
        self.remaining = -1
        self._continued = bool(options.continue_token)
        self._confirmed = target.only is None
        self._not_older_than = 0
        self._visible = NONE_VISIBLE if target.only is not None or not target.sight.unrestricted else ALL_VISIBLE
        """The clusters that are listed. Known from the first page on."""
        if self._continued:
            revision, self.start = registry.tokens.decode(options.continue_token, self._token_scope())
            self.revision = max(revision, 0)
        elif options.resource_version not in {"", "0"}:
            asked = parse_resource_version(options.resource_version)
            legacy_exact = bool(options.limit) and not options.resource_version_match
            if options.resource_version_match == EXACT or legacy_exact:
                self.revision = asked
            else:
                self._not_older_than = asked
        cluster_state = target.only
        if cluster_state is not None and 0 < self.revision < cluster_state.created_revision:
            raise errors.expired(errors.LIST_EXPIRED)

    def _token_scope(self) -> str:
        target = self.target
        cluster = target.only.uid if target.only is not None else target.sight.scope
        return f"{cluster}|{target.resource.keys.prefix}|{target.namespace}"

    def continue_token(self) -> str:
        """The token with which the next page is fetched; empty at the end of the list."""
        if not self.options.limit or not self.more:
            return ""
        return self._registry.tokens.encode(self._token_scope(), self.revision, self.start)

    def portions(self, *, as_stored: AsStored | None = None, answered: bool = True) -> AsyncIterator[list[Selected]]:
        """The selected items, in portions, `limit` of them at the most. `revision` is that of the list from the first portion on.

        Args:
            as_stored: which items the caller answers without conversion.
            answered: whether the items will be answered at all: objects that need a conversion webhook are then converted, page by page.

        Raises:
            StatusError: 410 where the revision is no longer kept, 504 where it has not happened.
        """
        # The generator itself, without another one around it, which would keep each portion until the next one was read.
        return _matching(self, as_stored=as_stored, answered=answered)

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
        registry, served = self._registry, self.target.served
        if self._visible is NONE_VISIBLE and self.target.only is None:
            await self._look()
        what, clusters = self._next(limit, max_bytes), registry.serving(served, self._visible)
        bounded = what.counted and clusters is None and self._visible is ALL_VISIBLE
        try:
            page = await scan(registry.access, served, what._replace(counted=what.counted and not bounded), clusters=clusters)
            if bounded and page.more and page.items:
                last = page.items[-1].key + "\x00"
                behind = registry.remaining.behind
                remaining = await behind(served.resource.keys, page.revision, what.start, taken=len(page.items), following=last)
                page = page._replace(remaining=remaining)
        except CompactedError as error:
            raise self._expired() from error
        await self.confirm()
        self._came_to(page, page.items[-1].key if page.items else "")
        return page

    @property
    def renderable(self) -> bool:
        """Whether pages can be had as bytes: everything is selected, or labels alone decide."""
        return (self.selection.empty or self.labels is not None) and can_render(self.target.served, self._next(0, 0))

    async def rendered(self, form: Form | None = None) -> RenderedPage:
        """The next page, of `limit` objects or else a chunk of the whole list, as bytes.

        Args:
            form: what elements are turned into; None for JSON objects.

        Raises:
            StatusError: as `page`.
        """
        limit = self.options.limit
        await self._check_age()
        await self._check_life()
        what = self._next(limit or _WHOLE_LIST_CHUNK, LARGEST_PAGE_BYTES if limit else _WHOLE_LIST_BYTES)
        try:
            page = await render(self._registry.access, self.target.served, what, form)
        except CompactedError as error:
            raise self._expired() from error
        await self.confirm()
        self._came_to(page, page.last)
        return page

    async def single(self) -> Page | None:
        """A list of one named object is a read of its key; None where that is not possible."""
        target = self.target
        if target.only is None or (target.resource.namespaced and not target.namespace) or self.revision:
            return None
        access = self._registry.access
        revision = await access.storage.revision()
        self.more = False
        try:
            item = await get(access, target.only, target.served, target.namespace, self.selection.name)
        except (StatusError, InvalidSegmentError):
            # No object has the name, or none can have it.
            items: list[KeyValue] = []
        else:
            items = [item]
            revision = max(revision, item.mod_revision)
        await self.confirm()
        self.revision = revision
        return Page(items, revision, more=False, remaining=-1)

    def _next(self, limit: int, max_bytes: int) -> Scan:
        target = self.target
        counted = bool(self.options.limit) and self.selection.empty
        name = self.selection.name
        return Scan(
            target.only,
            target.namespace,
            self.start,
            limit,
            self.revision,
            counted,
            max_bytes,
            by_name=name,
            labels=self.labels,
            visible=self._visible,
        )

    async def _look(self) -> None:
        """Find the clusters in sight at the revision of the list. Without one it is the latest that the feed has come to.

        Raises:
            StatusError: 410 for a revision before the sight changed. The caller may not see at present what it saw then.
        """
        sight, fanout = self.target.sight, self._registry.fanout
        current = await self._registry.access.storage.revision()
        if self.revision > current:
            raise errors.too_large_resource_version(self.revision, current)
        await fanout.reached(current)
        self.revision = self.revision or fanout.revision
        if self.revision < sight.changed_at:
            raise errors.expired(errors.LIST_EXPIRED)
        self._visible = visible_at(sight, self.revision)

    async def _check_age(self) -> None:
        if self._not_older_than:
            current = await self._registry.access.storage.revision()
            if self._not_older_than > current:
                raise errors.too_large_resource_version(self._not_older_than, current)
            self._not_older_than = 0

    async def _check_life(self) -> None:
        """Refuse a revision at which a cluster that does not exist now did exist: it was another one of the same name."""
        cluster_state = self.target.only
        if self._confirmed or cluster_state is None or cluster_state.created_revision or not self.revision:
            return
        try:
            if await holds(self._registry.access.storage, cluster_state.life, revision=self.revision):
                # The empty cluster is the answer for that revision, even where the cluster is created meanwhile.
                self._confirmed = True
                return
        except CompactedError as error:
            raise self._expired() from error
        raise errors.expired(errors.LIST_EXPIRED)

    async def confirm(self) -> None:
        """Check, after the first read, that the cluster is still the one that was asked for.

        Raises:
            StaleStateError: it is not; the data that was read must not be answered.
        """
        if not self._confirmed:
            await self._registry.clusters.confirm(self.target.cluster_state)
            self._confirmed = True

    def _came_to(self, page: Page | RenderedPage, last: str) -> None:
        self.revision = page.revision
        self.more = page.more
        self.remaining = page.remaining
        if last:
            self.start = last + "\x00"

    def stop_behind(self, item: KeyValue, *, more: bool) -> None:
        """Let the next page begin behind an item, before the end of the page that was read."""
        self.start = item.key + "\x00"
        self.more = more

    def _expired(self) -> StatusError:
        if not self._continued:
            return errors.expired(errors.LIST_EXPIRED)
        token = self._registry.tokens.encode(self._token_scope(), -1, self.start)
        return errors.expired(errors.INCONSISTENT_CONTINUE, continue_token=token)


async def _matching(listing: Listing, *, as_stored: AsStored | None, answered: bool) -> AsyncIterator[list[Selected]]:
    """See `Listing.portions`."""
    limit = listing.options.limit
    selection, labels = listing.selection, listing.labels
    target, items = listing.target, listing.items
    chosen = size = 0
    full = False
    turns = TimeSlice()
    while True:
        page = await _next_page(listing)
        if selection.empty and target.only is not None:
            # Without a selection the page is the answer.
            if page.items:
                objects: Sequence[dict[str, Any] | None] = ()
                if answered and target.resource.converter is not None:
                    states = [(item, target.served, target.only.name) for item in page.items]
                    objects = await items.converted(states, as_stored=as_stored)
                yield [Selected(item, target.served, target.only.name, obj) for item, obj in zip_longest(page.items, objects)]
                del objects
            if not listing.more or limit:
                return
            # One page is freed before the next is read.
            del page
            continue
        found: list[Selected] = []
        candidates = await _candidates(listing, page, turns, as_stored=as_stored, answered=answered)
        for position, (item, served, cluster, converted) in enumerate(candidates, start=1):
            if position % _LOOKED_AT_ONCE == 0:
                await turns.yield_if_due()
            obj = converted
            if not selection.empty:
                if labels is not None and obj is None:
                    if not labels.selects(labels_of(item.value)):
                        continue
                else:
                    if obj is None:
                        obj = await items.decoded(item, served, cluster)
                    if not selection.matches(obj, served.resource):
                        continue
            found.append(Selected(item, served, cluster, obj))
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


async def _next_page(listing: Listing) -> Page:
    limit = listing.options.limit
    if listing.selection.names_only and (single := await listing.single()) is not None:
        return single
    if not limit:
        return await listing.page(_WHOLE_LIST_CHUNK, _WHOLE_LIST_BYTES)
    # A selection may leave little of a page: many small reads for one answer would cost more than reading too much.
    return await (listing.page(max(limit, _SELECTIVE_CHUNK), _WHOLE_LIST_BYTES) if listing.selective else listing.page(limit))


async def _candidates(listing: Listing, page: Page, turns: TimeSlice, *, as_stored: AsStored | None, answered: bool) -> list[Selected]:
    """Candidate items of a page. Objects that need a conversion webhook are already converted."""
    target, items = listing.target, listing.items
    found: list[tuple[KeyValue, Served, Name]] = []
    converts = False
    for start in range(0, len(page.items), _PLACED_AT_ONCE):
        await turns.yield_if_due()
        placed: list[tuple[KeyValue, Name]] = []
        together = page.items[start : start + _PLACED_AT_ONCE]
        for item, place in zip(together, target.resource.keys.locate_each(item.key for item in together), strict=True):
            if not listing.namespace or place.namespace == listing.namespace:
                placed.append((item, target.only.name if target.only is not None else place.cluster))
        served_in = await items.served_in_each([*dict.fromkeys(cluster for _, cluster in placed)])
        for item, cluster in placed:
            if (served := served_in[cluster]) is not None:
                found.append((item, served, cluster))
                converts = converts or served.resource.converter is not None
    objects: Sequence[dict[str, Any] | None] = ()
    needed = not listing.selection.empty
    if converts and (answered or needed):
        objects = await items.converted(found, as_stored=None if needed else as_stored)
    return [Selected(item, served, cluster, obj) for (item, served, cluster), obj in zip_longest(found, objects) if obj is not UNCONVERTED]
