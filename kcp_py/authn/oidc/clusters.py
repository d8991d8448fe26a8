"""`ClusterIssuers`: the issuers that single logical clusters trust, by their `ClusterAuthenticationConfiguration` objects.

The objects of all clusters are read at the first JSON Web Token, and then follow the store. A request to a cluster without such objects
costs a lookup in memory. A write has effect from its answer on, as those of roles do (`kcp_py.authz.rbac.indexes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.apis.jwt.resource import (
    GROUP,
    MOST_ISSUERS,
    RESERVED_PREFIX,
    RESOURCE,
    confinement_problems,
    is_reserved_key,
)
from kcp_py.authn.certificate import CREDENTIAL_ID
from kcp_py.authn.tokens import Audiences, AuthenticatedToken
from kcp_py.egress import Answer, Caller, Endpoint
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.registry.store import Access
from kcp_py.registry.store.pending import PendingWrites
from kcp_py.request.user import CLUSTER_NAME_EXTRA, UserInfo
from kcp_py.storage.contract import DamagedError
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

if TYPE_CHECKING:
    from kcp_py.authn.oidc.tokens import JWTTokens

_CLUSTERS: Final = 1000
"""Clusters whose compiled rules, keys and verified tokens are kept, those that were used last. Bounded by number and not by the budget of
clusters: the keys of a provider are read again by a request to it, and not from the store."""
_KEPT_TOKENS: Final = 256
"""Verified tokens that are kept for one cluster."""
_BUDGET: Final = 100_000
"""What the expressions for one token may cost: about 5 ms of the event loop, which all clusters share."""
_FETCHES: Final = 2
"""Documents that are fetched for one cluster at a time, so that many dead providers of one cluster do not hold up those of others."""
_PAGE: Final = 500


class ClusterIssuers:
    """A `TokenAuthenticator` of the issuers of each cluster, and a `WriteObserver` of their objects."""

    def __init__(self, access: Access, fanout: Fanout, root: str, caller: Caller, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Begin to follow writes.

        Args:
            access: the store.
            fanout: the changes of the store.
            root: the prefix of the store's keys.
            caller: fetches keys in the networks that tenants may name.
            clock: when tokens and keys end.
        """
        self._clock = clock
        self._access = access
        self._caller = caller
        self._keys = resource_keys(root, GROUP, RESOURCE, namespaced=False)
        self._objects: dict[Name, dict[str, bytes]] = {}
        """The stored objects of each cluster that has some, by their names."""
        self._loaded = False
        self._following = False
        """Whether changes are kept: before the first load there is nothing that they could change."""
        self._changed: dict[Name, dict[str, object]] = {}
        """Names of objects to read again, each with what marks its latest change."""
        self._writing = PendingWrites()
        self._lock = asyncio.Lock()
        self._tokens: LRU[Name, JWTTokens] = LRU(_CLUSTERS)
        self._listeners: list[Callable[[Name], None]] = []
        access.observe(self._keys.prefix, self)
        fanout.listen(self._keys.prefix, self._event)
        fanout.listen_gaps(self._forget_all)

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """See `TokenAuthenticator`. At `/clusters/*` no token of a cluster is valid.

        Raises:
            StorageError: the objects cannot be read.
        """
        if isinstance(cluster, Wildcard) or token.count(b".") != 2:
            return None
        if not self._loaded or cluster in self._changed:
            async with self._lock:
                if not self._loaded:
                    await self._load()
                if cluster in self._changed:
                    await self._refresh(cluster)
        if cluster not in self._objects:
            return None
        tokens = self._tokens.get(cluster)
        if tokens is None:
            tokens = self._built(cluster)
            self._tokens.set(cluster, tokens)
        return await tokens.authenticate_token(token, cluster, audiences)

    def listen(self, listener: Callable[[Name], None]) -> None:
        """Call a function with the cluster of each change of issuers, by any server. It must not block and must not raise.

        Changes can be missed where the fan-out reports a gap (`Fanout.listen_gaps`).
        """
        self._listeners.append(listener)

    def close(self) -> None:
        """Forget tokens and keys, and end all fetches."""
        for cluster in [cluster for cluster, _ in self._tokens.items()]:
            self._drop(cluster)

    # WriteObserver

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write of objects begins."""
        del cluster
        self._writing.begin(keys)
        self._mark(keys)

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not."""
        del cluster
        self._writing.end(keys)
        self._mark(keys)

    def _event(self, event: ObjectEvent) -> None:
        if not self._following:
            # No token of such an issuer has been verified.
            return
        cluster = Name(event.route.cluster)
        self._changed.setdefault(cluster, {})[event.route.name] = object()
        for listener in self._listeners:
            listener(cluster)

    def _mark(self, keys: Sequence[str]) -> None:
        for key in keys:
            # The write that creates a cluster stores its LogicalCluster, too.
            if self._following and key.startswith(self._keys.prefix):
                place = self._keys.parse(key)
                self._changed.setdefault(place.cluster, {})[place.name] = object()

    def _forget_all(self) -> None:
        self._loaded = False

    # Reading

    async def _load(self) -> None:
        self._following = True
        self._changed.clear()
        objects: dict[Name, dict[str, bytes]] = {}
        turns = TimeSlice()
        async for page in read_pages(self._access.storage, self._keys.prefix, limit=_PAGE):
            for item in page.items:
                place = self._keys.parse(item.key)
                objects.setdefault(place.cluster, {})[place.name] = item.value
                await turns.yield_if_due()
        self._objects = objects
        self.close()
        # A write that is under way may not have been read.
        self._mark(self._writing.keys())
        self._loaded = True

    async def _refresh(self, cluster: Name) -> None:
        """Read objects that may have changed. Those with a write under way stay marked: the next token reads them once more."""
        for name, mark in list(self._changed.get(cluster, {}).items()):
            key = self._keys.object_key(cluster, "", name)
            try:
                item = await self._access.storage.get(key)
            except DamagedError:
                item = None
            objects = self._objects.setdefault(cluster, {})
            before = objects.pop(name, None)
            if item is not None:
                objects[name] = item.value
            if not objects:
                del self._objects[cluster]
            if before != (None if item is None else item.value):
                self._drop(cluster)
            marks = self._changed.get(cluster, {})
            if marks.get(name) is mark and key not in self._writing:
                del marks[name]
                if not marks:
                    del self._changed[cluster]

    def _drop(self, cluster: Name) -> None:
        tokens = self._tokens.pop(cluster)
        if tokens is not None:
            tokens.close()

    def _built(self, cluster: Name) -> JWTTokens:
        # Imported at the first token for a cluster with issuers.
        from kcp_py.apis.jwt.validation import validate_authenticators  # noqa: PLC0415
        from kcp_py.authn.oidc.building import issuer_of  # noqa: PLC0415
        from kcp_py.authn.oidc.tokens import Issuer, JWTTokens  # noqa: PLC0415

        issuers: dict[str, Issuer] = {}
        caller = _LimitedCaller(self._caller)
        for _, value in sorted(self._objects[cluster].items()):
            documents = _documents(value)
            found, problems = validate_authenticators(documents, "spec.jwt", maximum=MOST_ISSUERS)
            # Objects are valid when they are written. Those of other software, or of another version of this one, may not be.
            if problems or confinement_problems(documents, "spec.jwt"):
                continue
            for one in found:
                if len(issuers) < MOST_ISSUERS and one.issuer not in issuers:
                    issuers[one.issuer] = issuer_of(one, caller, cluster=cluster, now=self._clock.time, clock=self._clock.monotonic)

        def confine(user: UserInfo) -> UserInfo | None:
            return confined(user, cluster)

        return JWTTokens(list(issuers.values()), budget=_BUDGET, confine=confine, size=_KEPT_TOKENS, now=self._clock.time)


def confined(user: UserInfo, cluster: Name) -> UserInfo | None:
    """A user that an issuer of a cluster vouches for, as a user of that cluster; None for one that no cluster can have.

    Names and groups of the server (`system:`), and extra fields of kcp and Kubernetes, cannot come from a cluster.
    """
    if any(name.startswith(RESERVED_PREFIX) for name in (user.name, *user.groups)):
        return None
    if any(is_reserved_key(key) for key in user.extra if key != CREDENTIAL_ID):
        return None
    return user._replace(extra={**user.extra, CLUSTER_NAME_EXTRA: (cluster,)})


class _LimitedCaller:
    """A caller that fetches few documents at a time."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._fetches = asyncio.Semaphore(_FETCHES)

    async def get(self, endpoint: Endpoint, *, max_bytes: int, bearer: str = "") -> Answer:
        """See `Caller.get`."""
        async with self._fetches:
            return await self._caller.get(endpoint, max_bytes=max_bytes, bearer=bearer)


def _documents(value: bytes) -> list[dict[str, Any]]:
    try:
        found = orjson.loads(value)["spec"]["jwt"]
    except (ValueError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else []
