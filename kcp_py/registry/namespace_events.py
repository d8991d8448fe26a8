"""`NamespaceEvents`: the events of objects that namespaces have without storing them.

Such an object comes with its namespace, and goes when the namespace or its cluster begins to terminate. It is hidden while an object of its
name is stored. One that is not listed is shown by watches of its name alone, so its events are made only while there are such watches. The
events of a revision are the differences between what reads show at it and at the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import CLUSTER_OBJECT
from kcp_py.registry.default_events import DELETION_MARK, difference, item_after, origin_of_cluster
from kcp_py.registry.namespaces import DEFAULT_NAMESPACES, namespace_keys, namespace_origin
from kcp_py.registry.resource import NamespaceObject, Origin
from kcp_py.storage.contract import KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys, Route
from kcp_py.storage.oldkeys import read_at
from kcp_py.watchcache import ObjectEvent

_ANY_CLUSTER: Final = Origin("", "", 1)
"""Of the cluster of a namespace that is created: it exists, and gives nothing to the namespace."""


class _Change(NamedTuple):
    """An object before a revision and at it."""

    before: KeyValue | None
    after: KeyValue | None


class NamespaceEvents:
    """Works out the events of one resource with an object in each namespace. Implements `watchcache.derivation.Derivation`."""

    def __init__(
        self,
        storage: Storage,
        keys: ResourceKeys,
        namespace_object: NamespaceObject,
        *,
        cluster_keys: ResourceKeys,
        is_watched: Callable[[str], bool],
    ) -> None:
        """Prepare.

        Args:
            storage: where namespaces, clusters and objects are read.
            keys: of the resource.
            namespace_object: what a namespace has of it.
            cluster_keys: of LogicalClusters.
            is_watched: whether the name of an object that is not listed is watched in a cluster. Otherwise no events are made for it.
        """
        self._is_watched = is_watched
        self._storage = storage
        self._keys = keys
        self._object = namespace_object
        self._cluster_keys = cluster_keys
        self._namespace_keys = namespace_keys(keys.root)

    @property
    def sources(self) -> Sequence[str]:
        """The prefixes of the resources that the objects follow from."""
        return [self._cluster_keys.prefix, self._namespace_keys.prefix]

    def _is_shown(self, cluster: str) -> bool:
        """Whether a watcher of a cluster shows objects that are not stored. Watches over all clusters do so for objects that are listed."""
        return self._object.listed or self._is_watched(cluster)

    def concerns(self, event: ObjectEvent) -> bool:
        """`Derivation.concerns`."""
        route = event.route
        if route.prefix == self._keys.prefix:
            if route.name != self._object.name:
                return False
            # One that replaces another is two events. Otherwise one that is not shown before it is stored comes and goes as others do.
            return (event.previous is not None and event.value is not None) or self._is_shown(route.cluster)
        if not self._is_shown(route.cluster):
            return False
        if event.previous is None or event.value is None:
            return True
        if route.prefix == self._namespace_keys.prefix and route.name in DEFAULT_NAMESPACES:
            # One that came again may be the same revision's end of another one.
            return True
        return (DELETION_MARK in event.value) is not (DELETION_MARK in event.previous.value)

    def sources_of(self, cluster: str) -> Sequence[str] | None:
        """`Derivation.sources_of`."""
        if not self._is_shown(cluster):
            return []
        return [keys.cluster_prefix(Name(cluster)) for keys in (self._cluster_keys, self._namespace_keys)] if cluster else None

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        """`Derivation.seen`."""
        concerned = [event for event in stored if self.concerns(event)]
        own = {event.route for event in concerned if event.route.prefix == self._keys.prefix}
        result = [event for event in events if event.route not in own]
        for cluster in dict.fromkeys(event.route.cluster for event in concerned):
            revision = _Revision(self, cluster, [event for event in stored if event.route.cluster == cluster])
            result += await revision.differences([event for event in concerned if event.route.cluster == cluster])
        return result

    # For `_Revision`

    def object_route(self, cluster: str, namespace: str) -> Route:
        return Route(self._keys.prefix, cluster, namespace, self._object.name)

    def namespace_route(self, cluster: str, namespace: str) -> Route:
        return Route(self._namespace_keys.prefix, cluster, "", namespace)

    def cluster_route(self, cluster: str) -> Route:
        return Route(self._cluster_keys.prefix, cluster, "", CLUSTER_OBJECT)

    def default(self, cluster: str, namespace: str, cluster_origin: Origin | None, item: KeyValue | None) -> KeyValue | None:
        """What a namespace has without storing it.

        Args:
            cluster: the logical cluster.
            namespace: its name.
            cluster_origin: of the cluster; None where it does not exist or is being deleted.
            item: the stored namespace.
        """
        origin = None if cluster_origin is None else namespace_origin(cluster, cluster_origin, namespace, item)
        if origin is None:
            return None
        value = self._object.make(cluster, namespace, origin.uid, origin.created_at)
        return KeyValue(self.object_route(cluster, namespace).key, value, origin.revision, 0)

    async def read(self, route: Route, revision: int) -> KeyValue | None:
        return await read_at(self._storage, route.key, revision)

    async def namespaces(self, cluster: str, revision: int) -> Iterable[str]:
        """The namespaces of a cluster, and those that it would have by default."""
        found = await self._storage.range(self._namespace_keys.cluster_prefix(Name(cluster)), revision=revision, keys_only=True)
        return dict.fromkeys((*DEFAULT_NAMESPACES, *(self._namespace_keys.locate(item.key).name for item in found.items)))


class _Revision:
    """One revision in one cluster."""

    def __init__(self, events: NamespaceEvents, cluster: str, stored: Sequence[ObjectEvent]) -> None:
        self._events = events
        self._cluster = cluster
        self._revision = stored[0].mod_revision
        self._stored = {event.route: event for event in stored}
        self._read: dict[Route, _Change] = {}
        self._origins: tuple[Origin | None, Origin | None] | None = None
        """What the cluster gives to its default namespaces, before the revision and at it, once that was worked out."""
        creation = self._stored.get(events.cluster_route(cluster))
        self._is_creation = creation is not None and creation.previous is None
        """Whether the cluster has just been created: it holds nothing but the objects that are stored with it."""

    async def differences(self, concerned: Sequence[ObjectEvent]) -> list[ObjectEvent]:
        """What watches get, for the events that concern the objects."""
        found: list[ObjectEvent] = []
        for namespace in await self._namespaces(concerned):
            found += await self._difference(namespace)
        for event in found[:-1]:
            if event.value is None:
                # A client that resumes after one of them gets the others again.
                event.resource_version = min(event.resource_version, self._revision - 1)
        return found

    async def _namespaces(self, concerned: Sequence[ObjectEvent]) -> Iterable[str]:
        """The namespaces whose objects may have changed."""
        cluster_route = self._events.cluster_route(self._cluster)
        found: dict[str, None] = {}
        for event in concerned:
            if event.route != cluster_route:
                found[event.route.namespace or event.route.name] = None
            elif event.previous is None:
                found.update(dict.fromkeys(DEFAULT_NAMESPACES))
            else:
                found.update(dict.fromkeys(await self._events.namespaces(self._cluster, self._revision)))
        return found

    async def _difference(self, namespace: str) -> Iterable[ObjectEvent]:
        events, cluster, revision = self._events, self._cluster, self._revision
        route = events.object_route(cluster, namespace)
        own = self._stored.get(route)
        if own is not None and own.previous is not None and own.value is not None:
            return difference(route, own.previous, item_after(own), revision)
        of_namespace = await self._change(events.namespace_route(cluster, namespace))
        if of_namespace.before is None and namespace not in DEFAULT_NAMESPACES:
            # It has just been created: nothing else is in it.
            after = events.default(cluster, namespace, _ANY_CLUSTER, of_namespace.after)
            return difference(route, None, after if own is None else item_after(own), revision)
        if self._origins is None:
            of_cluster = await self._change(events.cluster_route(cluster))
            self._origins = _origin(of_cluster.before), _origin(of_cluster.after)
        before = events.default(cluster, namespace, self._origins[0], of_namespace.before)
        after = events.default(cluster, namespace, self._origins[1], of_namespace.after)
        if own is not None:
            return difference(route, own.previous or before, item_after(own) or after, revision)
        if before == after or (await self._change(route)).after is not None:
            return ()
        return difference(route, before, after, revision)

    async def _change(self, route: Route) -> _Change:
        """The stored object of a route before the revision and at it."""
        event = self._stored.get(route)
        if event is not None:
            return _Change(event.previous, item_after(event))
        change = self._read.get(route)
        if change is None:
            item = None if self._is_creation else await self._events.read(route, self._revision)
            change = self._read[route] = _Change(item, item)
        return change


def _origin(item: KeyValue | None) -> Origin | None:
    return None if item is None or DELETION_MARK in item.value else origin_of_cluster(item)
