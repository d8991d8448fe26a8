"""Which resources a logical cluster serves: the built-ins, and what its own CustomResourceDefinitions define.

A table is worked out from the cluster's CRDs when the cluster is first asked for, kept while it is used, and dropped on any change
of one of them: the next request works it out again. Tables of all clusters are bounded in number; what is heavy in them is shared
by content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import orjson

from kcp_py.logicalcluster import Name
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.definitions import CompiledDefinition, Definitions, is_served, same_content
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.storage.contract import Storage
from kcp_py.storage.keys import ResourceKeys
from kcp_py.watchcache import Feed, ObjectEvent

ResourceKey = tuple[str, str, str]
"""(group, version, plural)."""


class ResourceTable:
    """What one cluster serves, at one moment. Immutable."""

    __slots__ = ("_builtins", "definitions", "digest", "served")

    def __init__(
        self,
        builtins: Mapping[ResourceKey, Served],
        definitions: Sequence[CompiledDefinition] = (),
        served: Mapping[ResourceKey, Served] | None = None,
    ) -> None:
        self._builtins = builtins
        self.served: Mapping[ResourceKey, Served] = served or {}
        """Only what CRDs define."""
        self.definitions = tuple(definitions)
        """In the order of the CRDs' names."""
        self.digest = hashlib.sha256(b"".join(definition.digest for definition in definitions)).digest()
        """Equal for clusters that serve the same: documents about the table are shared by it."""

    def find(self, group: str, version: str, resource: str) -> Served | None:
        """The resource that a URL names."""
        key = (group, version, resource)
        return self._builtins.get(key) or self.served.get(key)

    def resources(self) -> Iterable[ServedResource]:
        """Everything that discovery tells of: built-ins, then established definitions."""
        for served in self._builtins.values():
            yield served.resource
        for definition in self.definitions:
            if definition.established:
                yield from definition.resources

    def stored_resources(self) -> Iterable[Served]:
        """One entry per kind of stored object, whatever versions it is served in; those of CRDs first."""
        seen: set[str] = set()
        for served in (*self.served.values(), *self._builtins.values()):
            if served.resource.keys.prefix not in seen:
                seen.add(served.resource.keys.prefix)
                yield served


class ResourceTables(ClusterCache[ResourceTable]):
    """The tables of all clusters, worked out on demand; a bounded number is kept."""

    def __init__(
        self,
        storage: Storage,
        feed: Feed,
        builtins: Sequence[ServedResource],
        *,
        root: str,
        definition_keys: ResourceKeys,
        capacity: int = 2_000,
    ) -> None:
        super().__init__(self._load, capacity=capacity)
        self._storage = storage
        self._feed = feed
        self._definition_keys = definition_keys
        self._builtins: Final = MappingProxyType(
            {(resource.group, resource.version, resource.resource): Served(resource) for resource in builtins}
        )
        self._builtin_names: Final = {(resource.group, resource.resource) for resource in builtins}
        self.definitions = Definitions(root)
        self.builtin_table = ResourceTable(self._builtins)
        """What a cluster without CRDs serves."""
        feed.listen(definition_keys.prefix, self._definition_changed)
        feed.listen_gaps(self.clear)

    @property
    def builtins(self) -> Iterable[ServedResource]:
        return (served.resource for served in self._builtins.values())

    def builtin(self, group: str, version: str, resource: str) -> Served | None:
        """A resource that every cluster serves."""
        return self._builtins.get((group, version, resource))

    def is_builtin(self, group: str, resource: str) -> bool:
        """Whether a resource is served without a CRD, in whatever version."""
        return (group, resource) in self._builtin_names

    def table_of(self, definitions: Sequence[CompiledDefinition]) -> ResourceTable:
        """A table for documents alone: it tells what is served, and serves no custom resources itself."""
        return ResourceTable(self._builtins, definitions)

    async def _load(self, cluster: Name) -> ResourceTable:
        found = await self._storage.range(self._definition_keys.cluster_prefix(cluster))
        if not found.items:
            return self.builtin_table
        compiled: list[CompiledDefinition] = []
        served: dict[ResourceKey, Served] = {}
        for item in found.items:
            crd: dict[str, Any] = orjson.loads(item.value)
            if not is_served(crd) or self.is_builtin(crd["spec"]["group"], crd["spec"]["names"]["plural"]):
                continue
            definition = self.definitions.compile(crd)
            compiled.append(definition)
            for resource in definition.resources:
                served[resource.group, resource.version, resource.resource] = Served(
                    resource, item.mod_revision, item.key, item.mod_revision
                )
        return ResourceTable(self._builtins, compiled, served)

    def _definition_changed(self, event: ObjectEvent) -> None:
        """A CRD changed: its cluster's table is worked out anew, and watches of its resource end, so that clients look again."""
        cluster = Name(event.route.cluster)
        self.invalidate(cluster)
        if event.previous is None:
            return
        if event.value is not None and same_content(orjson.loads(event.previous.value), orjson.loads(event.value)):
            return
        plural, _, group = event.route.name.partition(".")
        prefix = f"{self._definition_keys.prefix.rsplit('/', 3)[0]}/{group}/{plural}/customresources/"
        self._feed.end_watches(prefix=prefix, cluster=cluster)
