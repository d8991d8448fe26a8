"""`StoredItems`: stored items of one request as decoded objects of the version asked for, in one cluster or over all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.store import load, load_one
from kcp_py.registry.writerequest import Resolved
from kcp_py.storage.contract import KeyValue

_CLUSTERS_AT_ONCE: Final = 64
"""Clusters whose webhooks convert objects at the same time."""
_ASKED_AT_ONCE: Final = 256
"""Clusters that are asked how they serve a resource before other tasks have their turn, if it is due."""
UNCONVERTED: Final[dict[str, Any]] = {}
"""Stands for an object that its cluster's webhook does not convert; compared by identity."""

_LONGEST_REASON: Final = 300
_MOST_WARNINGS: Final = 5
"""Clusters that are named one by one where objects are left out."""

AsStored = Callable[[KeyValue, Served, Name], bool]
"""Whether a caller can answer an item as it is stored, so that it needs no conversion."""


class StoredItems:
    """Decodes stored items of one target."""

    __slots__ = ("_registry", "_target", "left_out", "wildcard")

    def __init__(self, registry: Registry, target: Resolved) -> None:
        self._registry = registry
        self._target = target
        self.wildcard = target.only is None
        self.left_out: dict[Name, StatusError] = {}
        """Clusters of which objects could not be shown, and why. Only over all clusters: no cluster makes the request of another fail."""

    async def served_in_each(self, clusters: Sequence[Name]) -> Mapping[Name, Served | None]:
        """The resource as the clusters of items serve it; None where a cluster does not serve the version asked for."""
        served = self._target.served
        if not self.wildcard or not served.per_cluster:
            return dict.fromkeys(clusters, served)
        found: dict[Name, Served | None] = {}
        turns = TimeSlice()
        for start in range(0, len(clusters), _ASKED_AT_ONCE):
            await turns.yield_if_due()
            together = clusters[start : start + _ASKED_AT_ONCE]
            found.update(zip(together, await self._registry.tables.glance_in_each(together, served), strict=True))
        return found

    async def decoded(self, item: KeyValue, served: Served, cluster: Name) -> dict[str, Any]:
        """The object in the version of the request, with the fields that the server adds to answers.

        Raises:
            StatusError: it cannot be converted.
        """
        obj = (await self._load(served, [item], cluster))[0] if self._may_fail(served) else await load_one(served, item)
        return served.resource.renderer.add_server_fields(obj, item.mod_revision, cluster, wildcard=self.wildcard)

    def _may_fail(self, served: Served) -> bool:
        return self.wildcard and served.resource.converter is not None

    async def _load(self, served: Served, items: Sequence[KeyValue], cluster: Name) -> list[dict[str, Any]]:
        if self._may_fail(served):
            return await self._registry.conversions.load(cluster, served, items)
        return await load(served, items)

    async def converted(
        self, states: Sequence[tuple[KeyValue, Served, Name]], *, as_stored: AsStored | None = None
    ) -> list[dict[str, Any] | None]:
        """The objects of those items that a webhook has to convert, as `decoded`; None for others.

        Over all clusters, `UNCONVERTED` for those that it does not convert.

        Objects of one cluster are converted together, and never with those of another, which its webhook must not see.

        Args:
            states: item, the resource in the item's cluster, and that cluster.
            as_stored: items for which it holds need no conversion; None: all do.
        """
        objects: list[dict[str, Any] | None] = [None] * len(states)
        places: dict[Name, list[int]] = {}
        for at, (item, served, cluster) in enumerate(states):
            if served.resource.converter is None or (as_stored is not None and as_stored(item, served, cluster)):
                continue
            places.setdefault(cluster, []).append(at)

        async def convert(cluster: Name, together: Sequence[int]) -> None:
            served = states[together[0]][1]
            try:
                loaded = await self._load(served, [states[at][0] for at in together], cluster)
            except StatusError as error:
                if not self.wildcard:
                    raise
                self.left_out[cluster] = error
                for at in together:
                    objects[at] = UNCONVERTED
                return
            for at, obj in zip(together, loaded, strict=True):
                objects[at] = served.resource.renderer.add_server_fields(obj, states[at][0].mod_revision, cluster, wildcard=self.wildcard)

        # Several clusters at once: the slow webhook of one must not delay all.
        clusters = list(places.items())
        for start in range(0, len(clusters), _CLUSTERS_AT_ONCE):
            await asyncio.gather(*(convert(cluster, together) for cluster, together in clusters[start : start + _CLUSTERS_AT_ONCE]))
        return objects


def left_out_warnings(left_out: Mapping[Name, StatusError]) -> list[str]:
    """Warnings that name clusters of which objects are left out."""
    found = [
        f"objects of the logical cluster {cluster} are left out: {error.message[:_LONGEST_REASON]}"
        for cluster, error in list(left_out.items())[:_MOST_WARNINGS]
    ]
    if len(left_out) > _MOST_WARNINGS:
        found.append(f"objects of {len(left_out) - _MOST_WARNINGS} more logical clusters are left out")
    return found
