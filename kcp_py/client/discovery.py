"""`DiscoveryCache`: the resources that clusters serve, as their discovery documents list them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.client.contract import ApiResource
from kcp_py.logicalcluster import Name

_FRESH_SECONDS: Final = 10.0
"""How long a resource that was found is not asked for again. One that was not found is asked for each time."""
_CLUSTERS: Final = 500
"""Clusters whose documents are kept. Bounded by number: the client may be in another process than the caches of clusters and their budget,
and keeps them for seconds."""

Fetch = Callable[[Name, str], Awaitable[Any]]
"""(cluster, path) -> the aggregated discovery document at `/api` or `/apis`."""


class _Served(NamedTuple):
    since: float
    kinds: Mapping[GroupVersionKind, ApiResource]
    resources: Mapping[GroupResource, ApiResource]
    everything: Sequence[ApiResource]


class DiscoveryCache:
    """Resources by kind and by name. A resource that a cluster has stopped serving may be found for a few seconds more."""

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            fetch: reads a document.
            clock: seconds that do not go back.
        """
        self._fetch = fetch
        self._clock = clock
        self._served: LRU[Name, _Served] = LRU(_CLUSTERS)

    async def find_kind(self, cluster: Name, kind: GroupVersionKind) -> ApiResource | None:
        """The resource of a kind, None where the cluster does not serve it."""
        served = self._known(cluster)
        return (served and served.kinds.get(kind)) or (await self._load(cluster)).kinds.get(kind)

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ApiResource | None:
        """A resource in the preferred version of its group, None where the cluster does not serve it."""
        served = self._known(cluster)
        return (served and served.resources.get(resource)) or (await self._load(cluster)).resources.get(resource)

    async def resources(self, cluster: Name) -> Sequence[ApiResource]:
        """All resources of a cluster in all their versions, read anew."""
        return (await self._load(cluster)).everything

    def forget(self, cluster: Name) -> None:
        """Read the documents of a cluster again when they are next needed."""
        self._served.pop(cluster)

    def _known(self, cluster: Name) -> _Served | None:
        served = self._served.get(cluster)
        return served if served is not None and self._clock() - served.since < _FRESH_SECONDS else None

    async def _load(self, cluster: Name) -> _Served:
        since = self._clock()
        documents = await asyncio.gather(self._fetch(cluster, "/api"), self._fetch(cluster, "/apis"))
        kinds: dict[GroupVersionKind, ApiResource] = {}
        resources: dict[GroupResource, ApiResource] = {}
        everything = [one for document in documents for one in resources_of(document)]
        for found in everything:
            gvr = found.resource
            kinds.setdefault(GroupVersionKind(gvr.group, gvr.version, found.kind), found)
            resources.setdefault(gvr.group_resource, found)
        served = _Served(since, kinds, resources, everything)
        self._served.set(cluster, served)
        return served


def resources_of(document: Mapping[str, Any]) -> list[ApiResource]:
    """The resources of an `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`, preferred versions first."""
    return [
        ApiResource(
            GroupVersionResource(group["metadata"].get("name", ""), version["version"], one["resource"]),
            one["responseKind"]["kind"],
            one["scope"] == "Namespaced",
            one.get("singularResource") or "",
            tuple(one.get("shortNames") or ()),
        )
        for group in document.get("items") or ()
        for version in group.get("versions") or ()
        for one in version.get("resources") or ()
        if one.get("responseKind")
    ]
