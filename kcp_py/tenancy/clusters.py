"""`LogicalClusters`: the existing clusters and their states."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apis.kcp.logicalclusters import NAME, delete_after, is_inactive
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits, limits_of
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.default_events import DefaultEvents
from kcp_py.registry.namespace_events import NamespaceEvents
from kcp_py.registry.namespaces import default_namespaces, namespace_keys
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Access
from kcp_py.storage.contract import Compare, ConflictError, KeyValue, Put, readable
from kcp_py.tenancy.logicalcluster import cluster_url, logical_cluster_keys, new_logical_cluster
from kcp_py.watchcache import Fanout, ObjectEvent

_VIRTUAL_UID_SPACE: Final = uuid.UUID("6b637020-7079-5c6c-8d75-737465727321")
_STATE_BYTES: Final = 700
"""What a state takes, without the name of its cluster."""

_NAMES_AT_ONCE: Final = 1_000
"""Names of clusters that are read at once."""

Gone = Callable[[Name], None]
"""Called when a cluster is deleted or deactivated, so that its cached values are dropped and its watches end."""


class LogicalClusters(ClusterCache[ClusterState | None]):
    """States of clusters, computed from their LogicalCluster objects on demand, and cached within the budget of all caches.

    `get` returns only clusters that have an object; `state` also returns those that exist without one.
    """

    def __init__(
        self,
        access: Access,
        fanout: Fanout,
        *,
        root: str,
        url: str = "",
        builtins: Iterable[ServedResource] = (),
        limits: Limits = NO_LIMITS,
    ) -> None:
        """Follow the changes of the store.

        Args:
            access: the store.
            fanout: the changes of the store.
            root: the store's prefix.
            url: the server's base URL, for the status of new clusters.
            builtins: the built-in resources; their default objects exist as long as the cluster.
            limits: of clusters that state none.
        """
        super().__init__(self._load, budget=access.budget, name="clusters", weigh=_weigh)
        values, use = self._values, access.budget.use_present

        def cached(cluster: Name) -> ClusterState | None:
            value = values.get(cluster)
            if value is not None:
                use(cluster)
            return value

        self.cached = cached
        self._access = access
        self._limits = limits
        self._keys = logical_cluster_keys(root)
        self._url = url
        self._on_gone: list[Gone] = []
        fanout.listen(self._keys.prefix, self._changed)
        fanout.listen_gaps(self.clear)
        self._fanout = fanout
        self._inherited = [resource.keys.prefix for resource in builtins if resource.inherited and resource.default_objects is not None]
        defaults = {one.keys: (one.default_objects, one.inherited) for one in builtins if one.default_objects is not None}
        for keys, (objects, inherited) in {namespace_keys(root): (default_namespaces, False), **defaults}.items():
            events = DefaultEvents(access.storage, keys, objects, cluster_keys=self._keys, inherited=inherited)
            fanout.derive(events.sources, keys.prefix, events)
        for one in builtins:
            if one.namespace_object is not None:
                prefix, name = one.keys.prefix, one.namespace_object.name
                of_namespaces = NamespaceEvents(
                    access.storage,
                    one.keys,
                    one.namespace_object,
                    cluster_keys=self._keys,
                    is_watched=partial(_is_named, fanout, prefix, name),
                )
                on_demand = "" if one.namespace_object.listed else name
                fanout.derive(of_namespaces.sources, prefix, of_namespaces, on_demand=on_demand)

    def on_gone(self, callback: Gone) -> None:
        """Register a function that is called when a cluster ends."""
        self._on_gone.append(callback)

    def url_of(self, cluster: Name) -> str:
        """The URL of a cluster; empty if the address of the server is unknown."""
        return cluster_url(self._url, cluster) if self._url else ""

    @property
    def prefix(self) -> str:
        """The prefix of the keys of LogicalClusters."""
        return self._keys.prefix

    def key(self, cluster: Name) -> str:
        """The storage key of a cluster's object."""
        return self._keys.object_key(cluster, "", NAME)

    async def state(self, cluster: Name) -> ClusterState | None:
        """The state of a cluster, or None if it does not exist. `root` and `system:` clusters always exist."""
        cluster_state = self.cached(cluster)
        if cluster_state is None:
            cluster_state = await self.get(cluster)
            if cluster_state is None and (cluster == ROOT or is_system(cluster)):
                return self.uncreated(cluster)
        return cluster_state

    async def names(self) -> AsyncGenerator[Name, None]:
        """All clusters that exist, in the order of keys. They are read in pages: there may be millions."""
        start = ""
        while True:
            page = await readable(self._access.storage.range(self._keys.prefix, start=start, limit=_NAMES_AT_ONCE, keys_only=True))
            for item in page.items:
                yield self._keys.parse(item.key).cluster
            if not page.more or not page.items:
                return
            start = page.items[-1].key + "\x00"

    async def confirm(self, cluster_state: ClusterState) -> None:
        """Check that a state is still valid, according to the events that were distributed.

        Raises:
            StaleStateError: the cluster was deleted, created, activated or deactivated since the state was computed.
            StorageError: the store cannot be read.
        """
        current = self.cached(cluster_state.name) or await self.get(cluster_state.name)
        before = (cluster_state.created_revision, cluster_state.inactive, bool(cluster_state.delete_after))
        if before != ((current.created_revision, current.inactive, bool(current.delete_after)) if current else (0, False, False)):
            raise StaleStateError(self.key(cluster_state.name))

    def uncreated(self, cluster: Name) -> ClusterState:
        """The state of a cluster that has no object yet. Reads find the cluster empty, and the first write creates it."""
        now = self._access.now()
        key = self.key(cluster)
        value = encode_stored(new_logical_cluster(cluster, self._access.new_uid(), now, url=self._url))
        virtual_uid = str(uuid.uuid5(_VIRTUAL_UID_SPACE, cluster))
        absent = (Compare(key, mod_revision=0),)
        return ClusterState(
            cluster,
            virtual_uid,
            0,
            now,
            guard=absent,
            create_with=(Put(key, value),),
            life=(Compare(key, create_revision=0),),
            limits=limits_of(cluster, None, self._limits),
        )

    async def ensure(self, cluster: Name) -> None:
        """Create the object of the cluster unless it exists."""
        if await self._access.storage.get(self.key(cluster)) is None:
            cluster_state = self.uncreated(cluster)
            try:
                await self._access.storage.transact(cluster_state.guard, cluster_state.create_with)
            except ConflictError:
                return

    async def states(self, first: Name | None, limit: int, revision: int) -> Sequence[ClusterState]:
        """The clusters that existed at a revision (0: now), in name order from `first` (None: the first one) on."""
        start = self._keys.cluster_prefix(first) if first else ""
        found = await readable(self._access.storage.range(self._keys.prefix, start=start, limit=limit, revision=revision))
        states: list[ClusterState] = []
        turns = TimeSlice()
        for item in found.items:
            states.append(self._state_of(self._keys.parse(item.key).cluster, item))
            await turns.yield_if_due()
        return states

    async def _load(self, cluster: Name) -> ClusterState | None:
        item = await self._access.storage.get(self.key(cluster))
        return None if item is None else self._state_of(cluster, item)

    def _state_of(self, cluster: Name, item: KeyValue) -> ClusterState:
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        return ClusterState(
            cluster,
            metadata["uid"],
            item.create_revision,
            metadata["creationTimestamp"],
            terminating=bool(metadata.get("deletionTimestamp")),
            inactive=is_inactive(obj),
            guard=(Compare(item.key, mod_revision=item.mod_revision),),
            delete_after=delete_after(obj) or "",
            life=(Compare(item.key, create_revision=item.create_revision),),
            limits=limits_of(cluster, metadata.get("annotations"), self._limits),
        )

    def _changed(self, event: ObjectEvent) -> None:
        cluster = Name(event.route.cluster)
        self.invalidate(cluster)
        if event.previous is None:
            # What the cluster inherits has other uids from its creation on.
            for prefix in self._inherited:
                self._fanout.end_watches(prefix=prefix, cluster=cluster)
        if event.value is None or not _is_served(orjson.loads(event.value)):
            for callback in self._on_gone:
                callback(cluster)


def _weigh(cluster: Name, cluster_state: ClusterState | None) -> int:
    return _STATE_BYTES + 4 * len(cluster) if cluster_state is not None else 0


def _is_served(obj: dict[str, Any]) -> bool:
    """Whether requests other than those for the LogicalCluster object itself are answered."""
    return not is_inactive(obj) and delete_after(obj) is None


def _is_named(fanout: Fanout, prefix: str, name: str, cluster: str) -> bool:
    """Whether one name of a resource is watched in a cluster."""
    return fanout.is_named(prefix, cluster, name)
