"""`GrantIndex`: all grants by subject, the labels of all clusters, and what callers have in sight.

It follows the feed in the order of revisions: watches rely on that. Before a decision the index waits for the feed to bring the writes that
this server has answered, so that a decision is never behind them.

A server without grants reads nothing but that there are none. With the first grant the labels of all clusters are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apis.access import grant_keys
from kcp_py.authz.grants.clusterset import ClusterSet
from kcp_py.authz.grants.grant import Grant, Labels, Selector, Subject, home_of, parse_grant
from kcp_py.authz.grants.labels import ClusterLabels, LabelChange
from kcp_py.authz.grants.sight import GrantedSight
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.store import Access
from kcp_py.storage.contract import readable
from kcp_py.storage.paging import read_pages
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from kcp_py.watchcache import Fanout, ObjectEvent

_PAGE: Final = 500
_NO_GRANTS: Final[Mapping[str, Grant]] = {}
_NO_LABELS: Final[Labels] = {}
_NEVER: Final = 2**63


class GrantIndex:
    """A `WriteObserver` of grants and of LogicalClusters."""

    def __init__(self, access: Access, fanout: Fanout, root: str) -> None:
        """Begin to follow writes. `root` is the prefix of the store's keys."""
        self._access = access
        self._fanout = fanout
        self._grant_keys = grant_keys(root)
        self._cluster_keys = logical_cluster_keys(root)
        self._clear()
        self._loading = asyncio.Lock()
        self._meanwhile: list[ObjectEvent] = []
        """Events during a load."""
        self._gaps = 0
        self._written = {self._grant_keys.prefix: 0, self._cluster_keys.prefix: 0}
        """How many writes of each resource this server has answered."""
        self._settled = dict(self._written)
        """How many of them the feed has certainly brought."""
        self._sights: WeakSet[GrantedSight] = WeakSet()
        self._listeners: list[Callable[[Name | None], None]] = []
        for prefix in self._written:
            access.observe(prefix, self)
            fanout.listen(prefix, self._event)
        fanout.listen_gaps(self._forget)

    def _clear(self) -> None:
        self._loaded = False
        self._grants: dict[str, Grant] = {}
        self._naming: set[str] = set()
        """Grants that are for objects of some names."""
        self._by_subject: dict[Subject, dict[str, Grant]] = {}
        self._written_at: dict[str, int] = {}
        """Grant -> the revision of its last write."""
        self._created_at: dict[str, int] = {}
        """Cluster -> the revision of its creation."""
        self._changed: dict[Subject, int] = {}
        """Subject -> the revision of the latest change of its grants."""
        self._labels: ClusterLabels | None = None
        self._sets: WeakValueDictionary[frozenset[Selector], ClusterSet] = WeakValueDictionary()
        self.version = object()
        """Another object after each change of grants."""

    # Questions

    async def refresh(self) -> None:
        """Bring the grants up to date. Called before the other questions.

        Raises:
            StorageError: the store cannot be read.
        """
        if self._written != self._settled and self._stale(self._grant_keys.prefix):
            await self._settle()
        if not self._loaded:
            await self._load()

    async def refresh_clusters(self, cluster: str = "") -> None:
        """Bring the labels of clusters up to date.

        Args:
            cluster: the one that is asked for, if it is one. The write that creates a cluster may have been one of another resource.

        Raises:
            StorageError: the store cannot be read.
        """
        if self._stale(self._cluster_keys.prefix) or (cluster and self._labels is not None and cluster not in self._labels):
            await self._settle()
        await self.refresh()

    @property
    def names_objects(self) -> bool:
        """Whether a grant is for objects of some names alone. Else decisions do not depend on names."""
        return bool(self._naming)

    @property
    def empty(self) -> bool:
        """Whether there are no grants."""
        return not self._grants

    def names(self) -> Collection[str]:
        """All clusters that exist."""
        return self._labels.names() if self._labels is not None else ()

    def grants_of(self, subjects: Sequence[Subject]) -> Iterator[Grant]:
        """The grants of a user, each once for every subject.

        A grant does not count for the accounts of a cluster that was created after it: they are others than those that its author meant.
        """
        for subject in subjects:
            grants = self._by_subject.get(subject, _NO_GRANTS)
            if subject[0] != "ServiceAccount" or not grants:
                yield from grants.values()
                continue
            home = home_of(subject)
            created = 0 if home == ROOT or is_system(home) else self._created_at.get(home, _NEVER)
            yield from (grant for grant in grants.values() if created <= self._written_at[grant.name])

    def exists(self, cluster: Name) -> bool:
        """Whether a logical cluster exists."""
        return cluster == ROOT or (self._labels is not None and cluster in self._labels)

    def selects(self, selector: Selector, cluster: Name) -> bool:
        """Whether a selector selects an existing cluster."""
        return selector.selects(cluster, self._labels.get(cluster) if self._labels is not None else None)

    def set_of(self, selectors: frozenset[Selector]) -> ClusterSet:
        """The clusters that at least one of the selectors selects."""
        found = self._sets.get(selectors)
        if found is None:
            assert self._labels is not None, "there are grants"
            found = self._sets[selectors] = ClusterSet(selectors, self._labels)
        return found

    def changed_at(self, subjects: Sequence[Subject]) -> int:
        """The revision of the latest known change of the grants of a user; 0 for none."""
        return max((self._changed.get(subject, 0) for subject in subjects), default=0)

    def follow(self, sight: GrantedSight) -> None:
        """Keep a sight up to date for as long as it is used."""
        self._sights.add(sight)

    def follows(self, sight: GrantedSight) -> bool:
        """Whether a sight is still kept up to date. It is not where changes may have been missed."""
        return sight in self._sights

    def listen(self, listener: Callable[[Name | None], None]) -> None:
        """Call a function with each single cluster in which grants begin or cease to hold; None for all clusters.

        Requests over all clusters follow their sight. The function must not block and must not raise. Changes can be missed where the
        fan-out reports a gap (`Fanout.listen_gaps`).
        """
        self._listeners.append(listener)

    # WriteObserver

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write begins. Only its answer counts."""

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        del cluster
        for prefix in self._written:
            if any(key.startswith(prefix) for key in keys):
                self._written[prefix] += 1

    def _stale(self, prefix: str) -> bool:
        # Without grants no decision depends on clusters.
        return self._written[prefix] != self._settled[prefix] and (self._labels is not None or prefix == self._grant_keys.prefix)

    async def _settle(self) -> None:
        """Wait for the feed to bring all writes from before the call."""
        written = dict(self._written)
        await self._fanout.reached(await self._access.storage.revision())
        for prefix, count in written.items():
            self._settled[prefix] = max(self._settled[prefix], count)

    # Loading

    async def _load(self) -> None:
        async with self._loading:
            while not self._loaded:
                self._meanwhile = []
                gaps = self._gaps
                found = await readable(self._access.storage.range(self._grant_keys.cluster_prefix(ROOT)))
                created: dict[str, int] = {}
                labels = ClusterLabels(await self._read_labels(found.revision, created), found.revision) if found.items else None
                if gaps != self._gaps:
                    continue
                self._clear()
                self._labels, self._created_at = labels, created
                for item in found.items:
                    name = self._grant_keys.parse(item.key).name
                    self._written_at[name] = item.mod_revision
                    self._put(name, item.value, 0)
                self._loaded = True
                for event in self._meanwhile:
                    if event.mod_revision > found.revision:
                        self._event(event)
                self._meanwhile = []

    async def _read_labels(self, revision: int, created: dict[str, int]) -> list[tuple[str, Labels]]:
        """The labels of all clusters. The revisions of their creation are added to `created`."""
        keys = self._cluster_keys
        labels: list[tuple[str, Labels]] = []
        turns = TimeSlice()
        async for page in read_pages(self._access.storage, keys.prefix, limit=_PAGE, revision=revision):
            for item in page.items:
                cluster = keys.parse(item.key).cluster
                labels.append((cluster, _labels_of(item.value)))
                created[cluster] = item.create_revision
                await turns.yield_if_due()
        return labels

    def _forget(self) -> None:
        self._gaps += 1
        self._clear()
        for sight in list(self._sights):
            sight.abandon()
        self._sights.clear()

    # Following

    def _event(self, event: ObjectEvent) -> None:
        if self._loading.locked() and not self._loaded:
            self._meanwhile.append(event)
        if not self._loaded:
            return
        if event.route.prefix == self._cluster_keys.prefix:
            if self._labels is not None:
                self._follow_life(event)
                labels = _labels_of(event.value) if event.value is not None else None
                if (change := self._labels.apply(event.route.cluster, labels, event.mod_revision)) is not None:
                    self._move(change)
        elif event.route.cluster == ROOT:
            if self._labels is None:
                # The first grant: the labels of the clusters are needed from now on. No caller has permissions by grants yet.
                self._loaded = False
            else:
                self._change(event)

    def _follow_life(self, event: ObjectEvent) -> None:
        """Follow the creation or the deletion of a cluster: the subjects of grants that live in it are others from now on."""
        cluster = event.route.cluster
        created = event.create_revision if event.value is not None else None
        if created == self._created_at.get(cluster):
            return
        if created is None:
            del self._created_at[cluster]
        else:
            self._created_at[cluster] = created
        subjects = {subject for subject in self._by_subject if subject[0] == "ServiceAccount" and home_of(subject) == cluster}
        if not subjects:
            return
        self.version = object()
        self._changed.update(dict.fromkeys(subjects, event.mod_revision))
        self._tell(None)
        for sight in list(self._sights):
            if not subjects.isdisjoint(sight.subjects):
                sight.regranted(event.mod_revision)

    def _tell(self, clusters: Iterable[str] | None) -> None:
        for cluster in (None,) if clusters is None else clusters:
            for listener in self._listeners:
                listener(None if cluster is None else Name(cluster))

    def _move(self, change: LabelChange) -> None:
        if change.before is not None and any(
            one.selector.selects(change.cluster, change.before) is not one.selector.selects(change.cluster, change.after)
            for one in self._grants.values()
        ):
            self._tell((change.cluster,))
        moved = {}
        for clusters in list(self._sets.values()):
            difference = clusters.apply(change)
            if difference is not None and difference.moved:
                moved[clusters] = difference.added
        if moved:
            for sight in list(self._sights):
                sight.moved(change, moved)

    def _change(self, event: ObjectEvent) -> None:
        name = event.route.name
        before = self._grants.get(name)
        self._written_at[name] = event.mod_revision
        if event.value is None:
            del self._written_at[name]
        self._put(name, event.value, event.mod_revision)
        after = self._grants.get(name)
        grants = [one for one in (before, after) if one is not None]
        everything = any(one.selector.everything for one in grants)
        self._tell(None if everything else {cluster for one in grants for cluster in self._selected(one.selector)})
        subjects = frozenset[Subject]().union(*(one.subjects for one in grants))
        for sight in list(self._sights):
            if not subjects.isdisjoint(sight.subjects):
                sight.regranted(event.mod_revision)

    def _selected(self, selector: Selector) -> Iterable[str]:
        yield from selector.names
        if self._labels is not None and selector.labels is not None:
            for labels, clusters in self._labels.by_labels():
                if selector.labels.matches(labels):
                    yield from clusters

    def _put(self, name: str, value: bytes | None, revision: int) -> None:
        """Add, replace or remove a grant; a load does so at revision 0, since it remembers no changes."""
        before = self._grants.pop(name, None)
        after = parse_grant(name, value) if value is not None else None
        self.version = object()
        for subject in before.subjects if before is not None else ():
            grants = self._by_subject[subject]
            del grants[name]
            if not grants:
                del self._by_subject[subject]
            self._changed[subject] = revision
        self._naming.discard(name)
        if after is not None:
            self._grants[name] = after
            if after.names_objects:
                self._naming.add(name)
            for subject in after.subjects:
                self._by_subject.setdefault(subject, {})[name] = after
                self._changed[subject] = revision


def _labels_of(value: bytes) -> Labels:
    """The labels of a stored LogicalCluster; none where other software has stored something else."""
    try:
        labels: Any = orjson.loads(value)["metadata"].get("labels") or {}
        return {str(key): str(label) for key, label in labels.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return _NO_LABELS
