"""Which resources a logical cluster serves: the built-ins, and what its own CustomResourceDefinitions define.

A table is worked out from the cluster's CRDs when the cluster is first asked for, kept while it is used, and dropped on any change
of one of them: the next request works it out again, and looks into no CRD but the changed one. Tables of all clusters are bounded in
number; what is heavy in them is shared by content.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from kcp_py.aio.turns import Turns
from kcp_py.logicalcluster import Name
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.conversion import Webhooks
from kcp_py.registry.definitions import CompiledDefinition, Definitions, same_content
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.storage.contract import KeyValue, Storage
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


class _Defined(NamedTuple):
    """A CRD as it was when it was last read."""

    revision: int
    definition: CompiledDefinition | None
    """None: it serves nothing."""
    served: Sequence[tuple[ResourceKey, Served]]


_PAGE: Final = 32
"""CRDs that are read at once: some are large."""


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
        webhooks: Webhooks | None = None,
    ) -> None:
        super().__init__(self._load, capacity=capacity)
        self._defined: OrderedDict[Name, dict[str, _Defined]] = OrderedDict()
        """What the last table of a cluster was made of, by key: the next one is made of the same but for what has changed."""
        self._loads: dict[Name, list[set[str]]] = {}
        """Of every load under way, the keys of definitions that were removed since it began."""
        self._storage = storage
        self._feed = feed
        self._definition_keys = definition_keys
        self._builtins: Final = MappingProxyType(
            {(resource.group, resource.version, resource.resource): Served(resource) for resource in builtins}
        )
        self._builtin_names: Final = {(resource.group, resource.resource) for resource in builtins}
        self.definitions = Definitions(root, webhooks)
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

    def clear(self) -> None:
        """Forget all clusters: changes may have been missed."""
        super().clear()
        self._defined.clear()

    async def _load(self, cluster: Name) -> ResourceTable:
        known = self._defined.get(cluster) or {}
        removed: set[str] = set()
        self._loads.setdefault(cluster, []).append(removed)
        try:
            defined = await self._read(cluster, known)
        finally:
            loads = self._loads[cluster]
            loads.remove(removed)
            if not loads:
                del self._loads[cluster]
        self._remember(cluster, {key: one for key, one in defined.items() if key not in removed} if removed else defined)
        if not defined:
            return self.builtin_table
        found = [one for one in defined.values() if one.definition is not None]
        served: dict[ResourceKey, Served] = {}
        for one in found:
            served.update(one.served)
        return ResourceTable(self._builtins, [one.definition for one in found if one.definition is not None], served)

    async def _read(self, cluster: Name, known: Mapping[str, _Defined]) -> dict[str, _Defined]:
        """The definitions of a cluster by key. Only those that are not known at their present revision are read and looked into."""
        prefix = self._definition_keys.cluster_prefix(cluster)
        defined: dict[str, _Defined] = {}
        turns = Turns()
        if known:
            for item in (await self._storage.range(prefix, keys_only=True)).items:
                one = known.get(item.key)
                if one is None or one.revision != item.mod_revision:
                    current = await self._storage.get(item.key)
                    if current is None:
                        continue
                    one = await self._define(current)
                    await turns.take()
                defined[item.key] = one
            return defined
        start = ""
        while True:
            page = await self._storage.range(prefix, start=start, limit=_PAGE)
            for item in page.items:
                defined[item.key] = await self._define(item)
                await turns.take()
            if not page.more:
                return defined
            start = page.items[-1].key + "\x00"

    async def _define(self, item: KeyValue) -> _Defined:
        definition = await self.definitions.load(item.value)
        if definition is None or self.is_builtin(definition.group, definition.plural):
            return _Defined(item.mod_revision, None, ())
        served = [
            ((resource.group, resource.version, resource.resource), Served(resource, item.mod_revision, item.key, item.mod_revision))
            for resource in definition.resources
        ]
        return _Defined(item.mod_revision, definition, served)

    def _remember(self, cluster: Name, defined: dict[str, _Defined]) -> None:
        if not defined:
            self._defined.pop(cluster, None)
            return
        self._defined[cluster] = defined
        self._defined.move_to_end(cluster)
        if len(self._defined) > self._capacity:
            self._defined.popitem(last=False)

    def _definition_changed(self, event: ObjectEvent) -> None:
        """A CRD changed: its cluster's table is worked out anew, and watches of its resource end, so that clients look again."""
        cluster = Name(event.route.cluster)
        self.invalidate(cluster)
        if event.value is None:
            self._forget(cluster, self._definition_keys.object_key(cluster, "", event.route.name))
        if event.previous is None:
            return
        plural, _, group = event.route.name.partition(".")
        prefix = f"{self._definition_keys.prefix.rsplit('/', 3)[0]}/{group}/{plural}/customresources/"
        if not self._feed.is_watched(prefix, cluster):
            return
        if event.value is not None and same_content(orjson.loads(event.previous.value), orjson.loads(event.value)):
            return
        self._feed.end_watches(prefix=prefix, cluster=cluster)

    def _forget(self, cluster: Name, key: str) -> None:
        """Keep nothing of a definition that is gone, not even for a table that is being worked out."""
        if (defined := self._defined.get(cluster)) is not None:
            defined.pop(key, None)
            if not defined:
                del self._defined[cluster]
        for removed in self._loads.get(cluster, ()):
            removed.add(key)
