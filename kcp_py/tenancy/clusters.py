"""`LogicalClusters`: which clusters exist, as scopes to work in."""

from __future__ import annotations

import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson

from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.namespaces import default_namespaces, namespace_keys
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.scope import ClusterScope
from kcp_py.registry.store import Access
from kcp_py.storage.contract import Compare, ConflictError, KeyValue, Put
from kcp_py.tenancy.logicalcluster import OBJECT_NAME, is_inactive, logical_cluster_keys, new_logical_cluster
from kcp_py.watchcache import Feed, ObjectEvent, Route
from kcp_py.watchcache.feed import derived_event

_VIRTUAL_UID_SPACE: Final = uuid.UUID("6b637020-7079-5c6c-8d75-737465727321")

Gone = Callable[[Name], None]
"""Called when a cluster ends, or when it is switched off: forget what is remembered of it, end its watches."""


class LogicalClusters:
    """Scopes of clusters, worked out from their LogicalCluster objects on demand; a bounded number is kept."""

    def __init__(self, access: Access, feed: Feed, *, root: str, url: str = "", capacity: int = 2_000) -> None:
        """Follow the feed.

        Args:
            access: the store.
            feed: its changes.
            root: the store's prefix.
            url: the server's base URL, for the status of new clusters.
            capacity: how many scopes are kept.
        """
        self._access = access
        self._keys = logical_cluster_keys(root)
        self._namespaces = namespace_keys(root)
        self._url = url
        self._capacity = capacity
        self._scopes: OrderedDict[Name, ClusterScope] = OrderedDict()
        self._loading: dict[Name, object] = {}
        self._writing: Counter[Name] = Counter()
        self._on_gone: list[Gone] = []
        feed.listen(self._keys.prefix, self._changed)
        feed.listen_gaps(self.clear)
        feed.derive(self._keys.prefix, self._namespaces.prefix, self._namespaces_of)

    def __len__(self) -> int:
        return len(self._scopes)

    def on_gone(self, callback: Gone) -> None:
        """Have a function called whenever a cluster ends."""
        self._on_gone.append(callback)

    @property
    def prefix(self) -> str:
        """Of the keys of LogicalClusters."""
        return self._keys.prefix

    def key(self, cluster: Name) -> str:
        """The storage key of a cluster's object."""
        return self._keys.object_key(cluster, "", OBJECT_NAME)

    async def scope(self, cluster: Name) -> ClusterScope | None:
        """The scope of an existing cluster; None where there is none of that name. `root` and `system:` clusters always exist."""
        scope = self._scopes.get(cluster)
        if scope is not None:
            self._scopes.move_to_end(cluster)
            return scope
        token = object()
        self._loading[cluster] = token
        item = await self._access.storage.get(self.key(cluster))
        unchanged = self._loading.pop(cluster, None) is token
        if item is None:
            return self.unborn(cluster) if is_system(cluster) or cluster == ROOT else None
        scope = self._scope_of(cluster, item)
        if unchanged and cluster not in self._writing:
            self._scopes[cluster] = scope
            if len(self._scopes) > self._capacity:
                self._scopes.popitem(last=False)
        return scope

    def unborn(self, cluster: Name) -> ClusterScope:
        """The scope of a cluster that has no object yet: reads find it empty, the first write brings it into being."""
        now = self._access.now()
        key = self.key(cluster)
        birth = encode_stored(new_logical_cluster(cluster, self._access.new_uid(), now, url=self._url))
        virtual_uid = str(uuid.uuid5(_VIRTUAL_UID_SPACE, cluster))
        return ClusterScope(cluster, virtual_uid, 0, now, guard=(Compare(key, mod_revision=0),), birth=(Put(key, birth),))

    async def ensure(self, cluster: Name) -> None:
        """Create the cluster's object if there is none."""
        if await self._access.storage.get(self.key(cluster)) is None:
            scope = self.unborn(cluster)
            try:
                await self._access.storage.transact(scope.guard, scope.birth)
            except ConflictError:
                return

    async def scopes(self, first: str, limit: int, revision: int) -> Sequence[ClusterScope]:
        """The clusters that existed at a revision (0: now), in name order from `first` on."""
        start = f"{self._keys.prefix}{first}" if first else ""
        found = await self._access.storage.range(self._keys.prefix, start=start, limit=limit, revision=revision)
        return [self._scope_of(self._keys.parse(item.key).cluster, item) for item in found.items]

    def writing(self, cluster: Name) -> None:
        """Remember nothing of a cluster while what it depends on is being written."""
        self._writing[cluster] += 1
        self.invalidate(cluster)

    def written(self, cluster: Name) -> None:
        """The write is over."""
        self._writing[cluster] -= 1
        if not self._writing[cluster]:
            del self._writing[cluster]
        self.invalidate(cluster)

    def invalidate(self, cluster: Name) -> None:
        """Forget the scope: its object changed."""
        self._scopes.pop(cluster, None)
        self._loading.pop(cluster, None)

    def clear(self) -> None:
        """Forget all scopes: changes may have been missed."""
        self._scopes.clear()
        self._loading.clear()

    def _scope_of(self, cluster: Name, item: KeyValue) -> ClusterScope:
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        return ClusterScope(
            cluster,
            metadata["uid"],
            item.create_revision,
            metadata["creationTimestamp"],
            terminating=bool(metadata.get("deletionTimestamp")),
            inactive=is_inactive(obj),
            guard=(Compare(item.key, mod_revision=item.mod_revision),),
        )

    def _changed(self, event: ObjectEvent) -> None:
        cluster = Name(event.route.cluster)
        self.invalidate(cluster)
        if event.value is None or is_inactive(orjson.loads(event.value)):
            for callback in self._on_gone:
                callback(cluster)

    def _namespaces_of(self, event: ObjectEvent) -> Iterable[ObjectEvent]:
        """The default namespaces come and go with their cluster."""
        if event.value is not None and event.previous is not None:
            return
        source = event.value if event.value is not None else event.previous.value if event.previous is not None else b""
        if not source:
            return
        metadata = orjson.loads(source)["metadata"]
        for name, value in default_namespaces(event.route.cluster, metadata["uid"], metadata["creationTimestamp"]).items():
            route = Route(self._namespaces.prefix, event.route.cluster, "", name)
            if event.value is not None:
                yield derived_event(event, route, value=value, previous=None)
            else:
                yield derived_event(event, route, value=None, previous=value)
