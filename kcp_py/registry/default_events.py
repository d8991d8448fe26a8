"""`DefaultEvents`: the events of objects that clusters have without storing them.

Such an object comes and goes with its cluster or, where a CRD defines its kind, with that CRD. It is hidden while an object of its name is
stored. The visible objects of a revision follow from the stored ones, as in lists: the events of a revision are the differences to the
one before. They are computed from the stored events and, where those are not sufficient, from reads at the revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import CLUSTER_OBJECT
from kcp_py.registry.resource import DefaultObjects, Origin
from kcp_py.schema.crd.names_conditions import is_condition_true
from kcp_py.storage.contract import Compare, Event, KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys, Route, crd_name_of
from kcp_py.storage.oldkeys import read_at
from kcp_py.watchcache import ObjectEvent

DELETION_MARK: Final = b'"deletionTimestamp":"'
"""In the bytes of an object that is being deleted, and of few others."""

_Defaults = Mapping[Route, KeyValue]

DefinesKind = Callable[[Mapping[str, Any]], bool]
"""The spec of a CRD -> whether it defines a certain kind."""


class _Sources(NamedTuple):
    """The stored objects from which default objects are derived."""

    cluster: KeyValue | None
    """The LogicalCluster."""
    crd: KeyValue | None
    """The CRD; None if it does not exist, and for kinds that are served without a CRD."""


class DefaultEvents:
    """Computes the events of one resource that has default objects. Implements `watchcache.derivation.Derivation`."""

    def __init__(
        self,
        storage: Storage,
        keys: ResourceKeys,
        objects: DefaultObjects,
        *,
        cluster_keys: ResourceKeys,
        crd_keys: ResourceKeys | None = None,
        resource: GroupResource | None = None,
        defines: DefinesKind = lambda _: False,
        inherited: bool = False,
    ) -> None:
        """Prepare.

        Args:
            storage: where sources are read.
            keys: of the resource.
            objects: the default objects of a cluster.
            cluster_keys: of LogicalClusters.
            crd_keys: of CRDs, where one defines the kind.
            resource: what that CRD defines.
            defines: whether a CRD of that resource defines the kind that has default objects.
            inherited: whether creations and deletions of clusters make no events: each would make as many as there are inherited objects.
                Watches in the cluster end with its creation instead (`LogicalClusters`).
        """
        self._storage = storage
        self._keys = keys
        self._objects = objects
        self._cluster_keys = cluster_keys
        self._crd_keys = crd_keys
        self._defines = defines
        self._inherited = inherited
        self._crd_name = crd_name_of(resource) if resource is not None else ""
        self._places = frozenset(objects("root", "", ""))

    @property
    def sources(self) -> Sequence[str]:
        """The prefixes of the resources that default objects follow from."""
        return [] if self._inherited else [keys.prefix for keys in (self._cluster_keys, self._crd_keys) if keys is not None]

    def concerns(self, event: ObjectEvent) -> bool:
        """`Derivation.concerns`."""
        route = event.route
        if route.prefix == self._keys.prefix:
            return _place_of(route) in self._places
        if self._inherited:
            return False
        if route.prefix != self._cluster_keys.prefix:
            return route.name == self._crd_name
        if event.previous is None:
            # The only CRDs of a new cluster are those that are created in the same revision. Their own events concern it.
            return self._crd_keys is None
        if event.value is None:
            return True
        # Namespaces stay until their cluster is gone, everything in them is content.
        return self._keys.namespaced and (DELETION_MARK in event.value) is not (DELETION_MARK in event.previous.value)

    def sources_of(self, cluster: str) -> Sequence[str] | None:
        """`Derivation.sources_of`."""
        if self._inherited:
            return []
        keys = [one for one in (self._cluster_keys, self._crd_keys) if one is not None]
        return [one.cluster_prefix(Name(cluster)) for one in keys] if cluster else None

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        """`Derivation.seen`."""
        del stored
        concerned = [event for event in events if self.concerns(event)]
        result = [event for event in events if event not in concerned or event.route.prefix != self._keys.prefix]
        for cluster in dict.fromkeys(event.route.cluster for event in concerned):
            own = {event.route: event for event in concerned if event.route.cluster == cluster}
            result += await self._differences(cluster, own, events[0].mod_revision)
        return result

    async def _differences(self, cluster: str, own: Mapping[Route, ObjectEvent], revision: int) -> list[ObjectEvent]:
        """The events of a cluster's default objects and of the objects that are stored in their places."""
        stored = {route: event for route, event in own.items() if route.prefix == self._keys.prefix}
        before: _Defaults = {}
        after: _Defaults = {}
        if len(stored) < len(own) or any(event.previous is None or event.value is None for event in stored.values()):
            before, after = await self._defaults(cluster, own, revision)
        created = any(event.previous is None for route, event in own.items() if route.prefix == self._cluster_keys.prefix)
        found: list[ObjectEvent] = []
        for route in dict.fromkeys((*stored, *before, *after)):
            event = stored.get(route)
            old, new = before.get(route), after.get(route)
            if event is not None:
                old, new = event.previous or old, item_after(event) or new
            elif old == new or (not created and await self._read(route, revision) is not None):
                # A new cluster holds only objects that were created in the same revision.
                continue
            found += difference(route, old, new, revision)
        return found

    async def _defaults(self, cluster: str, own: Mapping[Route, ObjectEvent], revision: int) -> tuple[_Defaults, _Defaults]:
        """The default objects before the revision and at it, whether or not they are hidden."""
        before: list[KeyValue | None] = []
        after: list[KeyValue | None] = []
        for keys, name in ((self._cluster_keys, CLUSTER_OBJECT), (self._crd_keys, self._crd_name)):
            route = None if keys is None else Route(keys.prefix, cluster, "", name)
            event = None if route is None else own.get(route)
            item = item_after(event) if event is not None else None if route is None else await self._read(route, revision)
            before.append(item if event is None else event.previous)
            after.append(item)
        return self._of(cluster, _Sources(*before)), self._of(cluster, _Sources(*after))

    def _of(self, cluster: str, sources: _Sources) -> _Defaults:
        own = sources.cluster
        if own is not None and self._keys.namespaced and DELETION_MARK in own.value:
            return {}
        if self._crd_keys is not None:
            origin = None if sources.crd is None else _origin_if_served(sources.crd, self._defines)
        else:
            origin = None if own is None else origin_of_cluster(own)
        if origin is None:
            return {}
        found: dict[Route, KeyValue] = {}
        for place, value in self._objects(cluster, origin.uid, origin.created_at).items():
            namespace, _, name = place.rpartition("/")
            route = Route(self._keys.prefix, cluster, namespace, name)
            found[route] = KeyValue(self._keys.object_key(Name(cluster), namespace, name), value, origin.revision, 0)
        return found

    async def _read(self, route: Route, revision: int) -> KeyValue | None:
        return await read_at(self._storage, route.key, revision)


def difference(route: Route, old: KeyValue | None, new: KeyValue | None, revision: int) -> Iterable[ObjectEvent]:
    """The events that watches receive when one object replaces another in the same place."""
    item = new or old
    if item is None:
        return
    if old is None or new is None or _uid_of(old.value) == _uid_of(new.value):
        yield ObjectEvent(route, Event(item.key, new and new.value, revision, item.create_revision, old))
        return
    # One revision ends an object and begins another. A client that received only the end resumes before both events.
    end = ObjectEvent(route, Event(old.key, None, revision, old.create_revision, old))
    end.resource_version = revision - 1
    yield end
    yield ObjectEvent(route, Event(new.key, new.value, revision, new.create_revision, None))


def item_after(event: ObjectEvent) -> KeyValue | None:
    """The object after an event."""
    return None if event.value is None else KeyValue(event.route.key, event.value, event.mod_revision, event.create_revision)


def _place_of(route: Route) -> str:
    return f"{route.namespace}/{route.name}" if route.namespace else route.name


def _uid_of(value: bytes) -> str:
    try:
        uid: str = orjson.loads(value)["metadata"]["uid"]
    except (KeyError, TypeError, ValueError):
        # Other software has written it into the store.
        return ""
    return uid


def origin_of_cluster(item: KeyValue) -> Origin:
    metadata = orjson.loads(item.value)["metadata"]
    return Origin(metadata["uid"], metadata["creationTimestamp"], item.create_revision)


def origin_of_crd(item: KeyValue) -> Origin:
    """The origin of default objects of the kind that a CRD defines.

    Their revision is that of the last write of the CRD: nothing stored tells when it was established. Each write of it is a change of them.
    """
    metadata = orjson.loads(item.value)["metadata"]
    life = Compare(item.key, create_revision=item.create_revision)
    return Origin(metadata["uid"], metadata["creationTimestamp"], item.mod_revision, life)


def _origin_if_served(item: KeyValue, defines: DefinesKind) -> Origin | None:
    """`origin_of_crd`; None where the CRD does not serve the kind that has default objects."""
    try:
        crd: dict[str, Any] = orjson.loads(item.value)
        if not is_condition_true(crd, "Established") or is_condition_true(crd, "Terminating") or crd["metadata"].get("deletionTimestamp"):
            return None
        return origin_of_crd(item) if defines(crd["spec"]) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        # A stored CRD that is malformed serves nothing.
        return None
