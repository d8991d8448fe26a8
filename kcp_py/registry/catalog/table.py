"""`ResourceTable`: what one logical cluster serves, at one moment."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

import orjson

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.registry.clusterbudget import Shared
from kcp_py.registry.resource import ResourceKey, Served, ServedResource

_NOTHING: Final[Mapping[ResourceKey, Served]] = MappingProxyType({})


class ResourceTable:
    """What one cluster serves. Immutable."""

    __slots__ = ("_digest", "_everywhere", "_kinds", "_resources", "served")

    def __init__(self, everywhere: Mapping[ResourceKey, Served], served: Mapping[ResourceKey, Served] = _NOTHING) -> None:
        """Put a table together.

        Args:
            everywhere: what every cluster serves; shared by all tables.
            served: what this one serves besides.
        """
        self._everywhere = everywhere
        self._kinds: dict[GroupVersionKind, Served] | None = None
        self._resources: dict[GroupResource, list[Served]] | None = None
        self.served = served
        """What not every cluster serves."""
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """Equal for clusters that serve the same: documents about the table are shared by it."""
        if not self._digest:
            self._digest = digest_of(one.resource for one in self.served.values())
        return self._digest

    @property
    def count(self) -> int:
        """How many resources not every cluster serves, each version for itself."""
        return len(self.served)

    def shared(self) -> Collection[Shared]:
        """The costs of the compiled forms of the resources, which other clusters may have as well; each once."""
        return _costs(one.resource for one in self.served.values())

    def find(self, group: str, version: str, resource: str) -> Served | None:
        """The resource that a URL names."""
        key = (group, version, resource)
        return self._everywhere.get(key) or self.served.get(key)

    def find_same(self, served: Served) -> Served | None:
        """The resource and version that another cluster serves, if this one serves them and stores objects in the same place."""
        own = self.find(*served.resource.key)
        return own if own is not None and own.resource.keys.prefix == served.resource.keys.prefix else None

    def find_all(self, resource: GroupResource) -> Sequence[Served]:
        """A resource in all its versions, among those that not every cluster serves."""
        if self._resources is None:
            self._resources = {}
            for served in self.served.values():
                self._resources.setdefault(served.resource.group_resource, []).append(served)
        return self._resources.get(resource, ())

    def find_own(self, resource: GroupResource) -> Served | None:
        """A resource that not every cluster serves, in the version in which it is stored if that is served."""
        found = self.find_all(resource)
        return max(found, key=lambda served: served.resource.version == served.resource.storage_version, default=None)

    def find_own_kind(self, kind: GroupVersionKind) -> Served | None:
        """The resource whose objects are of a kind, among those that not every cluster serves."""
        if self._kinds is None:
            self._kinds = {}
            for served in self.served.values():
                self._kinds.setdefault(served.resource.group_version_kind, served)
        return self._kinds.get(kind)

    def resources(self) -> Iterable[ServedResource]:
        """Everything that discovery names: what every cluster serves comes first."""
        for served in self._everywhere.values():
            yield served.resource
        for served in self.served.values():
            if served.resource.discoverable:
                yield served.resource

    def stored_resources(self) -> Iterable[Served]:
        """One entry per kind of stored object, whatever versions it is served in; what not every cluster serves comes first."""
        seen: set[str] = set()
        for served in (*self.served.values(), *self._everywhere.values()):
            if served.resource.rest is None and served.resource.keys.prefix not in seen:
                seen.add(served.resource.keys.prefix)
                yield served


class ResourceUnion:
    """What at least one cluster serves, for documents. No request is answered by it: it does not say which cluster serves what."""

    __slots__ = ("_resources", "_shared", "count", "digest")

    def __init__(self, everywhere: Mapping[ResourceKey, Served], resources: Iterable[ServedResource]) -> None:
        """Put a union together.

        Args:
            everywhere: what every cluster serves.
            resources: what some clusters serve besides, as discovery names it.
        """
        own = tuple(resources)
        self.count = len(own)
        """How many resources not every cluster serves, each version for itself."""
        self._shared = _costs(own)
        self._resources = (*(served.resource for served in everywhere.values()), *own)
        self.digest = digest_of(own)
        """Equal for unions of the same resources: documents are shared by it."""

    def resources(self) -> Iterable[ServedResource]:
        """Everything that discovery names."""
        return self._resources

    def shared(self) -> Collection[Shared]:
        """The costs of the compiled forms of the resources, each once."""
        return self._shared


def _costs(resources: Iterable[ServedResource]) -> Collection[Shared]:
    return dict.fromkeys(resource.cost for resource in resources if resource.cost is not None)


def digest_of(resources: Iterable[ServedResource]) -> bytes:
    """A hash of the resources as documents describe them."""
    return hashlib.sha256(b"".join(resource.digest or _content_digest(resource) for resource in resources)).digest()


_DIGESTS: Final[WeakKeyDictionary[ServedResource, bytes]] = WeakKeyDictionary()


def _content_digest(resource: ServedResource) -> bytes:
    """The hash of everything in a resource that discovery or OpenAPI may show."""
    if (cached := _DIGESTS.get(resource)) is None:
        content = (
            *resource.key,
            (resource.kind, resource.list_kind, resource.singular, resource.namespaced, resource.discoverable),
            (resource.short_names, resource.categories, resource.verbs, resource.storage_version_hash, resource.typed, resource.protobuf),
            [(one.name, one.verbs, one.kind) for one in resource.subresources.values()],
            (resource.upstream_model, resource.document, resource.field_labels, resource.strategic_merge is not None),
        )
        cached = _DIGESTS[resource] = hashlib.sha256(orjson.dumps(content, default=list)).digest()
    return cached
