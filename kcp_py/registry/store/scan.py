"""Reading many objects: the keys of a list, in order, in pages, together with what clusters have by default."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served
from kcp_py.registry.store.access import Access
from kcp_py.registry.store.defaults import default_items, default_items_at, is_default, with_defaults
from kcp_py.registry.store.labels import LabelChoice
from kcp_py.registry.store.namespacedefaults import count_visible, namespace_items_at, namespace_items_everywhere
from kcp_py.registry.store.visible import ALL_VISIBLE, NONE_VISIBLE, Visible, VisibleReader, Window
from kcp_py.storage.contract import LARGEST_PAGE_BYTES, KeyValue, RangeResult, prefix_end, readable

_CLUSTERS_AT_ONCE: Final = 500
"""Clusters whose default objects are worked out at once."""

StateScan = Callable[[Name | None, int, int], Awaitable[Sequence[ClusterState]]]
"""(first cluster or None, limit or 0, revision or 0) -> the clusters that exist, in the order of their keys."""

ServedScan = Callable[[Name | None, int, int], Awaitable[Sequence[tuple[ClusterState, Served]]]]
"""(first cluster, limit, revision) -> the clusters that serve a resource, each with the resource as it serves it."""


class Scan(NamedTuple):
    """What to read."""

    cluster_state: ClusterState | None
    """None for all clusters, or for those of `visible`."""
    namespace: str = ""
    start: str = ""
    """Skip keys before this one."""
    limit: int = 0
    revision: int = 0
    counted: bool = False
    max_bytes: int = LARGEST_PAGE_BYTES
    """Of a page with a limit; the item that goes beyond is its last."""
    by_name: str = ""
    """The one name that the caller looks for: default objects that lists do not show are found by it. Others are read, too."""
    labels: LabelChoice | None = None
    """Which objects of a rendered list are answered; None for all."""
    visible: Visible = NONE_VISIBLE
    """The clusters of a read over all of them. A part of all clusters is read at a revision that the caller names."""


class Page(NamedTuple):
    """A part of a list."""

    items: list[KeyValue]
    """Objects that a cluster has by default have `create_revision` 0."""
    revision: int
    more: bool
    remaining: int
    """How many objects remain behind the last item; -1 where that was not asked for or is not known."""


async def scan(access: Access, served: Served, what: Scan, *, clusters: ServedScan | None = None) -> Page:
    """Read a page of one resource.

    Args:
        access: the store.
        served: the resource.
        what: which part of it.
        clusters: the clusters that serve the resource. Needed for scans of all clusters if some have default objects of it.

    Raises:
        StorageError: compacted or future revision, store unavailable.
    """
    resource = served.resource
    if what.cluster_state is None and what.visible is not ALL_VISIBLE:
        return await _scan_visible(access, served, what, clusters)
    if what.cluster_state is None:
        prefix = resource.keys.prefix
    elif what.namespace:
        prefix = resource.keys.namespace_prefix(what.cluster_state.name, what.namespace)
    else:
        prefix = resource.keys.cluster_prefix(what.cluster_state.name)
    reading = access.storage.range(
        prefix, start=what.start, limit=what.limit, revision=what.revision, count=what.counted, max_bytes=what.max_bytes
    )
    # An object that is damaged is an error in its own cluster, and must not keep those of all others from who reads them together.
    found = await (readable(reading) if what.cluster_state is None else reading)
    if what.cluster_state is None and (foreign := resource.keys.foreign_prefix):
        found = await _without(foreign, access, prefix, what, found=found)
    if not resource.shows_defaults(what.by_name) if what.cluster_state is not None else clusters is None:
        return Page(found.items, found.revision, found.more, found.total - len(found.items) if what.counted else -1)
    defaults = await _defaults(access, served, what, found.revision, clusters=clusters)
    defaults = [item for item in defaults if item.key >= what.start and item.key.startswith(prefix)]
    page = _merged(found.items, defaults, what, prefix, found.revision, more=found.more)
    if what.cluster_state is None or not what.counted or resource.namespace_object is None:
        return page
    last = page.items[-1].key if page.items else ""
    behind = await count_visible(access, [item for item in defaults if item.key > last], page.revision)
    return page._replace(remaining=behind if behind < 0 else behind + found.total - sum(not is_default(item) for item in page.items))


async def _defaults(access: Access, served: Served, what: Scan, revision: int, *, clusters: ServedScan | None) -> list[KeyValue]:
    """The default objects that may come into a page, and others."""
    resource = served.resource
    if what.cluster_state is not None:
        return await default_items_at(
            access, served, what.cluster_state, revision, namespace=what.namespace, start=what.start, limit=what.limit
        )
    assert clusters is not None, "default objects follow from the clusters that serve the resource"
    first = resource.keys.first_cluster(what.start)
    if resource.namespace_object is None:
        return await _defaults_of_clusters(served, what, revision, first, clusters=clusters)
    serving = await clusters(first, what.limit and what.limit + 1, revision)
    states = [cluster_state for cluster_state, _ in serving]
    if what.visible.few is not None:
        items: list[KeyValue] = []
        for cluster_state in states:
            items += await namespace_items_at(access, resource, cluster_state, revision, start=what.start, limit=what.limit)
            if what.limit and len(items) > what.limit:
                break
        return items
    return await namespace_items_everywhere(access, resource, states, revision, start=what.start, limit=what.limit)


async def _defaults_of_clusters(served: Served, what: Scan, revision: int, first: Name | None, *, clusters: ServedScan) -> list[KeyValue]:
    """The default objects of clusters from the first one on: one more than a page holds, since something stored may be in their places."""
    # Clusters that define a resource themselves are looked for from the beginning each time.
    together = what.limit if served.per_cluster else min(what.limit, _CLUSTERS_AT_ONCE)
    items: list[KeyValue] = []
    turns = TimeSlice()
    while True:
        serving = await clusters(first, together and together + 1, revision)
        for cluster_state, own in serving[:together] if together else serving:
            items += [item for item in default_items(own, cluster_state) if item.key >= what.start]
            if what.limit and len(items) > what.limit:
                return items
            await turns.yield_if_due()
        if not together or len(serving) <= together:
            return items
        first = serving[together][0].name


async def _scan_visible(access: Access, served: Served, what: Scan, clusters: ServedScan | None) -> Page:
    """A page of some clusters, with nothing in it that depends on others."""
    keys = served.resource.keys
    reader = VisibleReader(access.storage, keys, what.visible, Window(what.start, what.limit, what.revision, what.max_bytes))
    await reader.read()
    if clusters is None:
        return Page(reader.items, what.revision, reader.more, -1)
    defaults = [item for item in await _defaults(access, served, what, what.revision, clusters=clusters) if item.key >= what.start]
    return _merged(reader.items, defaults, what, keys.prefix, what.revision, more=reader.more)


async def _without(foreign: str, access: Access, prefix: str, what: Scan, *, found: RangeResult) -> RangeResult:
    """A page of a built-in resource over all clusters, without the keys of custom resources that have the same name."""
    items = found.items
    at = bisect_left(items, foreign, key=_key)
    if at == len(items) or not items[at].key.startswith(foreign):
        return found
    end = prefix_end(foreign)
    kept = [*items[:at], *items[bisect_left(items, end, key=_key) :]]
    total = found.total
    if what.counted:
        hidden = await access.storage.range(foreign, start=what.start, limit=1, revision=found.revision, count=True, keys_only=True)
        total -= hidden.total
    if not found.more or kept[at:]:
        return found._replace(items=kept, total=total)
    limit = what.limit - len(kept)
    rest = await readable(access.storage.range(prefix, start=end, limit=limit, revision=found.revision, max_bytes=what.max_bytes))
    return RangeResult([*kept, *rest.items], found.revision, rest.more, total)


def _key(item: KeyValue) -> str:
    return item.key


def _merged(stored: list[KeyValue], defaults: list[KeyValue], what: Scan, prefix: str, revision: int, *, more: bool) -> Page:
    """Put defaults between stored items, where they are not stored themselves."""
    # Items behind the last stored item of a full page were not read: a default object there may be stored after all.
    horizon = stored[-1].key if more and stored else prefix_end(prefix)
    items = with_defaults(stored, [item for item in defaults if item.key <= horizon])
    beyond = any(item.key > horizon for item in defaults)
    if what.limit and len(items) > what.limit:
        return Page(items[: what.limit], revision, more=True, remaining=-1)
    return Page(items, revision, more=more or beyond, remaining=-1)
