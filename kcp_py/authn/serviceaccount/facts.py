"""`ObjectFacts`: what tokens depend on of stored objects, right from the answer to each write on, and without a read for each request.

Verifying a token asks whether its account and the object to which it is bound exist. The answers are kept by the keys of the objects, in a
bounded number. A write of an object drops its answer when it begins and when it ends, and none is kept that was read in between; writes of
other servers come with the feed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.core.tokensecrets import INVALID_SINCE, LAST_USED
from kcp_py.golang.base64 import decode_base64
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.namespaces import namespace_keys
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Access
from kcp_py.registry.store.pending import PendingWrites
from kcp_py.registry.store.read import find
from kcp_py.storage.contract import KeyValue
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, resource_keys
from kcp_py.watchcache import Fanout, ObjectEvent

_KEPT: Final = 16384
"""Objects, about 400 bytes each. Reading one again costs one read. Bounded by number and not by the budget of clusters: each token in use
has its own, in clusters that are busy."""
_RESOURCES: Final = {"serviceaccounts": True, "secrets": True, "pods": True, "nodes": False}


class Fact(NamedTuple):
    """What tokens depend on of one object."""

    uid: str = ""
    """Empty where there is no object."""
    deleted_at: float = 0.0
    """Unix seconds of the deletion timestamp; 0 where the object is not being deleted."""
    token_hash: bytes = b""
    """SHA-256 of the token that a secret holds."""
    invalid: bool = False
    """Whether the token of a secret has been marked as invalid."""
    last_used: str = ""
    """The day of the last use of the token of a secret, as its label says it."""
    secrets: tuple[str, ...] = ()
    """The secrets that an account names."""


_ABSENT: Final = Fact()


class Place(NamedTuple):
    """Where the fact about an object is kept."""

    key: str
    """Of the object in the store."""
    namespace_key: str
    """Of its namespace; that of all namespaces for objects without one."""
    namespace: str
    name: str


class _Entry(NamedTuple):
    fact: Fact
    life: int
    """`ClusterState.created_revision` of the cluster: another cluster of its name has other objects."""
    namespace: object
    """The state of the namespace: a default account ends with its namespace, without a write of its own."""


class ObjectFacts:
    """A `WriteObserver` of the objects to which tokens are bound."""

    def __init__(self, access: Access, fanout: Fanout, root: str) -> None:
        """Begin to follow writes. `root` is the prefix of the store's keys."""
        self._access = access
        self._accounts: Served | None = None
        self._keys = {plural: resource_keys(root, "", plural, namespaced=namespaced) for plural, namespaced in _RESOURCES.items()}
        self._custom = {
            plural: resource_keys(root, "", plural, namespaced=_RESOURCES[plural], identity=CUSTOM_RESOURCES)
            for plural in ("pods", "nodes")
        }
        self._namespaces = namespace_keys(root)
        self._entries: LRU[str, _Entry] = LRU(_KEPT)
        self._states: LRU[str, object] = LRU(_KEPT)
        """Key of a namespace -> another object after each of its writes."""
        self._loading: dict[str, object] = {}
        self._writing = PendingWrites()
        self._listeners: list[Callable[[Name], None]] = []
        followed = [*self._keys.values(), *self._custom.values(), self._namespaces]
        for keys in followed:
            access.observe(keys.prefix, self)
            fanout.listen(keys.prefix, self._event)
        fanout.listen_gaps(self._clear)

    def connect(self, accounts: Served) -> None:
        """Say how service accounts are served: there are such that no store holds."""
        self._accounts = accounts

    def listen(self, listener: Callable[[Name], None]) -> None:
        """Call a function with the cluster of each change of an object that a token in use depends on. It must not block or raise."""
        self._listeners.append(listener)

    def place(self, cluster: Name, resource: str, namespace: str, name: str) -> Place:
        """Where the fact about an object is kept. Worked out once for each token.

        Raises:
            InvalidSegmentError: no object can have the name.
        """
        return self._place(cluster, self._keys[resource], namespace, name)

    def cached(self, cluster_state: ClusterState, place: Place) -> Fact | None:
        """The fact about an object, if it is at hand."""
        entry = self._entries.get(place.key)
        if entry is None or entry.life != cluster_state.created_revision or entry.namespace is not self._states.get(place.namespace_key):
            return None
        return entry.fact

    async def account(self, cluster_state: ClusterState, place: Place) -> Fact:
        """The fact about a service account, stored or not.

        Raises:
            StaleStateError: the cluster changed meanwhile.
            StorageError: the store cannot be read.
        """
        accounts = self._accounts
        assert accounts is not None, "connected while the server starts"

        async def read() -> KeyValue | None:
            return await find(self._access, cluster_state, accounts, place.namespace, place.name)

        return await self._get(cluster_state, place, read)

    async def stored(self, cluster_state: ClusterState, place: Place) -> Fact:
        """The fact about a stored object. Errors as `account`."""
        return await self._get(cluster_state, place, lambda: self._access.storage.get(place.key))

    async def either(self, cluster_state: ClusterState, resource: str, place: Place) -> Fact:
        """The fact about a pod or a node, whether the kind is built in or defined by a CRD. Errors as `account`."""
        found = await self.stored(cluster_state, place)
        if found.uid:
            return found
        return await self.stored(cluster_state, self._place(cluster_state.name, self._custom[resource], place.namespace, place.name))

    async def _get(self, cluster_state: ClusterState, place: Place, read: Callable[[], Awaitable[KeyValue | None]]) -> Fact:
        if (known := self.cached(cluster_state, place)) is not None:
            return known
        key = place.key
        state = self._states.setdefault(place.namespace_key, object())
        token = self._loading[key] = object()
        try:
            fact = _fact_of(await read())
        finally:
            unchanged = self._loading.get(key) is token
            if unchanged:
                del self._loading[key]
        if unchanged and key not in self._writing and place.namespace_key not in self._writing:
            self._entries.set(key, _Entry(fact, cluster_state.created_revision, state))
        return fact

    def _place(self, cluster: Name, keys: ResourceKeys, namespace: str, name: str) -> Place:
        of_namespace = self._namespaces.object_key(cluster, "", namespace) if namespace else self._namespaces.cluster_prefix(cluster)
        return Place(keys.object_key(cluster, namespace, name), of_namespace, namespace, name)

    # WriteObserver

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write begins."""
        self._writing.begin(keys)
        self._drop(cluster, keys)

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        self._writing.end(keys)
        self._drop(cluster, keys)

    def _event(self, event: ObjectEvent) -> None:
        self._drop(Name(event.route.cluster), (event.route.key,))

    def _drop(self, cluster: Name, keys: Sequence[str]) -> None:
        used = False
        for key in keys:
            self._loading.pop(key, None)
            used |= self._entries.pop(key) is not None
            used |= self._states.pop(key) is not None
        if not keys:
            used = bool(len(self._entries) or len(self._states))
            self._clear()
        if used:
            for listener in self._listeners:
                listener(cluster)

    def _clear(self) -> None:
        self._entries.clear()
        self._states.clear()
        self._loading.clear()


def _fact_of(item: KeyValue | None) -> Fact:
    if item is None:
        return _ABSENT
    try:
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        deleted = metadata.get("deletionTimestamp")
        labels = metadata.get("labels") or {}
        token = (obj.get("data") or {}).get("token")
        return Fact(
            metadata["uid"],
            parse_time(deleted) if deleted else 0.0,
            hashlib.sha256(decode_base64(token)).digest() if isinstance(token, str) and obj.get("kind") == "Secret" else b"",
            bool(labels.get(INVALID_SINCE)),
            labels.get(LAST_USED, ""),
            tuple(reference.get("name", "") for reference in obj.get("secrets") or ()),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        # Other software has stored something else: no token is valid by it.
        return _ABSENT
