"""Which resources a logical cluster serves: the built-ins, and what its own CustomResourceDefinitions define.

A table is worked out from the cluster's CRDs when the cluster is first asked for, kept while it is used, and dropped on any change
of one of them: the next request works it out again, and looks into no CRD but the changed one. Tables of all clusters are bounded in
number; what is heavy in them is shared by content.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import NONE, CompiledDefinition, Definitions, HeldNames, same_content
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.registry.conversion import Webhooks
from kcp_py.registry.default_events import origin_of_definition
from kcp_py.registry.resource import DefaultObjects, Served, ServedResource
from kcp_py.storage.contract import Compare, KeyValue, Storage, readable
from kcp_py.storage.keys import ResourceKeys, custom_resource_keys
from kcp_py.watchcache import Feed, ObjectEvent

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")

ResourceKey = tuple[str, str, str]
"""(group, version, plural)."""


class ResourceTable:
    """What one cluster serves, at one moment. Immutable."""

    __slots__ = ("_builtins", "_kinds", "definitions", "digest", "held_names", "served")

    def __init__(
        self,
        builtins: Mapping[ResourceKey, Served],
        definitions: Sequence[CompiledDefinition] = (),
        served: Mapping[ResourceKey, Served] | None = None,
        *,
        held_names: Sequence[HeldNames] = (),
    ) -> None:
        self._builtins = builtins
        self._kinds: dict[GroupVersionKind, Served] | None = None
        self.served: Mapping[ResourceKey, Served] = served or {}
        """Only what CRDs define."""
        self.definitions = tuple(definitions)
        """In the order of the CRDs' names."""
        self.held_names = held_names
        """Of all CRDs, those that are not served as well."""
        self.digest = hashlib.sha256(b"".join(definition.digest for definition in definitions)).digest()
        """Equal for clusters that serve the same: documents about the table are shared by it."""

    def find(self, group: str, version: str, resource: str) -> Served | None:
        """The resource that a URL names."""
        key = (group, version, resource)
        return self._builtins.get(key) or self.served.get(key)

    def find_custom_kind(self, kind: GroupVersionKind) -> Served | None:
        """The resource whose objects are of a kind, among those that CRDs define."""
        if self._kinds is None:
            self._kinds = {served.resource.group_version_kind: served for served in self.served.values()}
        return self._kinds.get(kind)

    def find_custom_resource(self, resource: GroupResource) -> Served | None:
        """A resource that a CRD defines, in the version in which it is stored if that is served."""
        found = [served for served in self.served.values() if served.resource.group_resource == resource]
        return max(found, key=lambda served: served.resource.version == served.resource.storage_version, default=None)

    def definition(self, name: str) -> CompiledDefinition | None:
        """The definition of a CRD by its name, if it is served."""
        at = bisect_left(self.definitions, name, key=attrgetter("name"))
        found = self.definitions[at : at + 1]
        return found[0] if found and found[0].name == name else None

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
            if served.resource.rest is None and served.resource.keys.prefix not in seen:
                seen.add(served.resource.keys.prefix)
                yield served


class _Defined(NamedTuple):
    """A CRD as it was when it was last read."""

    revision: int
    names: HeldNames | None
    """None: it is malformed."""
    definition: CompiledDefinition | None
    """None: it serves nothing."""
    served: Sequence[tuple[ResourceKey, Served]]


class _Known:
    """What the last table of a cluster was made of: the next one is made of the same but for what has changed."""

    __slots__ = ("begun", "changed", "defined", "listed", "merged", "removed", "served")

    def __init__(self) -> None:
        self.defined: dict[str, _Defined] = {}
        """By key, in order. Not changed but replaced, except for what is gone."""
        self.served: dict[ResourceKey, Served] = {}
        self.begun = 0
        """Counts loads and changes, to tell which came first."""
        self.merged = 0
        """The beginning of the latest load that has left here what it found; those that began before it leave nothing."""
        self.listed = False
        """Whether all keys are known but for those that have changed."""
        self.changed: dict[str, int] = {}
        """Keys whose definitions have to be read again, and since when."""
        self.removed: dict[str, int] = {}
        """Keys whose definitions were gone."""

    def begin(self) -> int:
        self.begun += 1
        return self.begun

    def note(self, keys: Iterable[str]) -> None:
        """These have to be read again; without any, all keys have to be listed."""
        now = self.begin()
        noted = dict.fromkeys(keys, now)
        self.changed.update(noted)
        if not noted:
            self.listed = False
            # A list that is being read already may be too old.
            self.merged = now

    def forget(self, key: str) -> None:
        """Keep nothing of a definition that is gone, not even for a table that is being worked out."""
        self.removed[key] = self.begin()
        if (gone := self.defined.pop(key, None)) is not None:
            for resource, _ in gone.served:
                self.served.pop(resource, None)

    def merge(self, begun: int, defined: dict[str, _Defined], served: dict[ResourceKey, Served]) -> None:
        """Keep what a load has found, unless one that began later was faster."""
        if begun < self.merged:
            return
        self.merged = begun
        self.listed = True
        self.defined, self.served = dict(defined), dict(served)
        self.changed = {key: since for key, since in self.changed.items() if since > begun}
        removed, self.removed = self.removed, {}
        for key, since in removed.items():
            if since > begun:
                self.forget(key)


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
        defaults: Mapping[GroupResource, DefaultObjects] = NONE,
        annotated: bool = True,
    ) -> None:
        super().__init__(self._load, capacity=capacity)
        self._known: LRU[Name, _Known] = LRU(capacity)
        self._storage = storage
        self._feed = feed
        self._definition_keys = definition_keys
        self._builtins: Final = MappingProxyType(
            {(resource.group, resource.version, resource.resource): Served(resource) for resource in builtins}
        )
        self._builtin_names: Final = {(resource.group, resource.resource) for resource in builtins}
        self.definitions = Definitions(root, webhooks, defaults, annotated=annotated)
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
        self._known.clear()

    async def _load(self, cluster: Name) -> ResourceTable:
        known = self._known.get(cluster)
        if known is None:
            known = _Known()
            self._known.set(cluster, known)
        begun = known.begin()
        if known.listed:
            defined, served = await self._read_changed(known)
        else:
            defined = await self._read_all(cluster, known.defined)
            served = dict(chain.from_iterable(one.served for one in defined.values()))
        if not self.is_writing(cluster):
            # What was read while a write is on its way may be what was there before it, and would be taken for what is there now.
            known.merge(begun, defined, served)
        if not known.defined and self._known.peek(cluster) is known:
            self._known.pop(cluster)
        if not defined:
            return self.builtin_table
        found = [one.definition for one in defined.values() if one.definition is not None]
        names = [one.names for one in defined.values() if one.names is not None]
        return ResourceTable(self._builtins, found, served, held_names=names)

    async def _read_changed(self, known: _Known) -> tuple[dict[str, _Defined], dict[ResourceKey, Served]]:
        """The definitions of a cluster by key, and what they serve. Only those that have changed are read."""
        defined, served = dict(known.defined), dict(known.served)
        added = False
        time_slice = TimeSlice()
        for key in sorted(known.changed):
            item = await self._storage.get(key)
            one = defined.get(key)
            if item is not None and one is not None and one.revision == item.mod_revision:
                continue
            added = added or one is None
            for resource, _ in one.served if one is not None else ():
                served.pop(resource, None)
            if item is None:
                defined.pop(key, None)
                continue
            defined[key] = await self._define(item)
            served.update(defined[key].served)
            await time_slice.yield_if_due()
        if added:
            defined = dict(sorted(defined.items()))
        return defined, served

    async def _read_all(self, cluster: Name, known: Mapping[str, _Defined]) -> dict[str, _Defined]:
        """The definitions of a cluster by key. Only those that are not known at their present revision are read and looked into."""
        prefix = self._definition_keys.cluster_prefix(cluster)
        defined: dict[str, _Defined] = {}
        time_slice = TimeSlice()
        if known:
            known = dict(known)
            for item in (await self._storage.range(prefix, keys_only=True)).items:
                one = known.get(item.key)
                if one is None or one.revision != item.mod_revision:
                    current = await self._storage.get(item.key)
                    if current is None:
                        continue
                    one = await self._define(current)
                    await time_slice.yield_if_due()
                defined[item.key] = one
            return defined
        start = ""
        while True:
            page = await readable(self._storage.range(prefix, start=start, limit=_PAGE))
            for item in page.items:
                defined[item.key] = await self._define(item)
                await time_slice.yield_if_due()
            if not page.more:
                return defined
            start = page.items[-1].key + "\x00"

    async def _define(self, item: KeyValue) -> _Defined:
        names, definition, error = await self.definitions.load(item.value)
        if error is not None:
            # Another server, or another version of this one, has written it: that must not take all others from the cluster.
            key = self._definition_keys.parse(item.key)
            _log.warning("definition_not_served", cluster=key.cluster, name=key.name, error=repr(error))
        if definition is None or self.is_builtin(definition.group, definition.plural):
            return _Defined(item.mod_revision, names, None, ())
        life = (Compare(item.key, create_revision=item.create_revision),)
        origin = origin_of_definition(item) if any(resource.default_objects for resource in definition.resources) else None
        since = item.mod_revision
        served = [
            ((resource.group, resource.version, resource.resource), Served(resource, since, item.key, since, life, origin))
            for resource in definition.resources
        ]
        return _Defined(item.mod_revision, names, definition, served)

    def _note(self, cluster: Name, keys: Sequence[str]) -> None:
        super()._note(cluster, keys)
        if (known := self._known.peek(cluster)) is not None:
            mine = [key for key in keys if key.startswith(self._definition_keys.prefix)]
            if mine or not keys:
                known.note(mine)

    def _definition_changed(self, event: ObjectEvent) -> None:
        """A CRD changed: its cluster's table is worked out anew, and watches of its resource end, so that clients look again."""
        cluster = Name(event.route.cluster)
        key = self._definition_keys.object_key(cluster, "", event.route.name)
        self._note(cluster, [key])
        if event.value is None and (known := self._known.peek(cluster)) is not None:
            known.forget(key)
            if not known.defined:
                self._known.pop(cluster)
        if event.previous is None:
            return
        prefix = custom_resource_keys(self._definition_keys.root, event.route.name, namespaced=True).prefix
        if not self._feed.is_watched(prefix, cluster):
            return
        if event.value is not None and same_content(event.previous.value, event.value):
            return
        self._feed.end_watches(prefix=prefix, cluster=cluster)
