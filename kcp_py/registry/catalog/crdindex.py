"""`CRDIndex`: which clusters have a CustomResourceDefinition of a resource.

The index holds, for every CRD of every cluster, its name alone. It is read from the store when a request over all clusters first needs
it, and follows the feed from then on: a server without such requests does not pay for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Storage, readable
from kcp_py.storage.keys import ResourceKeys
from kcp_py.watchcache import ObjectEvent


class CRDIndex:
    """Name of a CRD -> the clusters that have it."""

    def __init__(self, storage: Storage, keys: ResourceKeys) -> None:
        """Begin empty. `keys` are those of CRDs."""
        self._storage = storage
        self._keys = keys
        self._clusters: dict[str, dict[Name, None]] | None = None
        self._filling = asyncio.Lock()
        self._changed_meanwhile: list[ObjectEvent] = []
        self._gaps = 0

    async def resources(self) -> Collection[GroupResource]:
        """The resources of which at least one cluster has a CRD."""
        return [_resource_of(name) for name in await self._filled()]

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """The clusters that have a CRD of a resource."""
        return (await self._filled()).get(f"{resource.resource}.{resource.group or 'core'}", {}).keys()

    def clear(self) -> None:
        """Forget the index: changes may have been missed."""
        self._clusters = None
        self._gaps += 1

    def apply(self, event: ObjectEvent) -> None:
        """Follow a change of a CRD."""
        if self._clusters is not None:
            _apply(self._clusters, event)
        elif self._filling.locked():
            self._changed_meanwhile.append(event)

    async def _filled(self) -> Mapping[str, Mapping[Name, None]]:
        if self._clusters is not None:
            return self._clusters
        async with self._filling:
            while self._clusters is None:
                self._changed_meanwhile = []
                gaps = self._gaps
                found = await readable(self._storage.range(self._keys.prefix, keys_only=True))
                if gaps != self._gaps:
                    continue
                index: dict[str, dict[Name, None]] = {}
                for item in found.items:
                    key = self._keys.parse(item.key)
                    index.setdefault(key.name, {})[key.cluster] = None
                self._clusters = index
                for event in self._changed_meanwhile:
                    if event.mod_revision > found.revision:
                        _apply(index, event)
                self._changed_meanwhile = []
        return self._clusters


def _apply(index: dict[str, dict[Name, None]], event: ObjectEvent) -> None:
    name, cluster = event.route.name, Name(event.route.cluster)
    if event.value is not None:
        index.setdefault(name, {})[cluster] = None
    elif (clusters := index.get(name)) is not None:
        clusters.pop(cluster, None)
        if not clusters:
            del index[name]


def _resource_of(name: str) -> GroupResource:
    """The resource of a CRD by its name, `<plural>.<group>` or `<plural>.core`."""
    plural, _, group = name.partition(".")
    return GroupResource("" if group == "core" else group, plural)
