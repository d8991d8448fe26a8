"""`ServedResource`: the description of a resource for the handlers. It describes built-ins and CRDs; handlers do not depend on kinds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.table import Column
from kcp_py.registry.clusterbudget import Shared
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.rendering import Renderer
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import Code, Subresource
from kcp_py.registry.views import WHOLE, View
from kcp_py.schema.contract import CompiledSchema
from kcp_py.storage.contract import Compare
from kcp_py.storage.keys import ResourceKeys

Converter = Callable[[Sequence[dict[str, Any]], str], Awaitable[list[dict[str, Any]]]]
"""Brings objects, which may be of several versions, to one `apiVersion`. Inputs are not kept and may be changed."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of an ordinary resource, in the order of discovery."""

ResourceKey = tuple[str, str, str]
"""(group, version, plural)."""

DefaultObjects = Callable[[str, str, str], Mapping[str, bytes]]
"""(cluster, uid and RFC 3339 creation time of what they come with) -> stored form of each object, in the order of their keys.

They come with the cluster, or with the CRD that defines their kind. Objects are named `NAME`, or `NAMESPACE/NAME` where they have one.
"""


class NamespaceObject(NamedTuple):
    """The object that every namespace has of a resource without storing it."""

    name: str
    make: Callable[[str, str, str, str], bytes]
    """(cluster, namespace, uid and RFC 3339 creation time of the namespace) -> stored form."""
    listed: bool = True
    """Whether lists and watches show it before it is stored. If not, those of its name in one cluster do."""


class Origin(NamedTuple):
    """What the default objects of a resource come with, and go with: the cluster, the namespace, or the CRD that defines their kind."""

    uid: str
    created_at: str
    """RFC 3339."""
    revision: int
    """Their resourceVersion: of the creation of the cluster or the namespace, or of the CRD's last write, with which they count as
    changed."""
    life: Compare | None = None
    """Holds as long as the CRD exists, and not for another CRD of its name; None for the cluster."""


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """The `storageVersionHash` of discovery: eight bytes in base64 (apiserver `discovery.StorageVersionHash`)."""
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class ServedResource:
    """One resource in one version, as a cluster serves it. Immutable; shared by every cluster in which it is the same."""

    group: str
    version: str
    resource: str
    """The plural."""
    kind: str
    list_kind: str
    singular: str
    namespaced: bool
    keys: ResourceKeys
    strategy: Strategy
    columns: Sequence[Column]
    """Of the Table form."""
    storage_version: str
    """The version (without the group) in which objects are written."""
    schema: CompiledSchema
    """Of this version."""
    storage_schema: CompiledSchema
    """Of the storage version: reads default and prune by it before they convert."""
    stored_schemas: Mapping[str, CompiledSchema] = field(default_factory=dict)
    """By `apiVersion`: of every version in which older objects may be stored. Others obey `storage_schema`."""
    storage_group: str | None = None
    """The group in which objects are written, where it is not `group`: events of both groups are one storage."""
    converter: Converter | None = None
    """None: versions differ in `apiVersion` alone."""
    default_objects: DefaultObjects | None = None
    """Objects that every cluster has without storing them."""
    namespace_object: NamespaceObject | None = None
    """The object that every namespace has without storing it."""
    has_defaults: bool = field(init=False)
    """Whether there are objects of either sort."""
    lists_defaults: bool = field(init=False)
    """Whether lists and watches show such objects. Those of one name in one cluster always do."""
    inherited: bool = False
    """Whether the default objects belong to each cluster alone: requests over all clusters show stored objects only, and the creation of a
    cluster makes no events of this resource for them."""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    verbs: Sequence[str] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """By name, in the order of discovery."""
    has_status: bool = field(init=False)
    """Whether `/status` is served."""
    typed: bool = True
    """Whether the kind is compiled into clients: list items then carry no kind, and strategic merge patch is accepted."""
    protobuf: bool = False
    """Whether objects have a protobuf form, in which clients send and get them."""
    field_labels: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace: label -> dotted path in the object, or
    several with `|` between them, of which the first that is set counts."""
    strategic_merge: Mapping[str, Any] | None = None
    """The OpenAPI schema that drives strategic merge patch; None where it is answered with 415."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What `$ref`s in `document` and `strategic_merge` refer to."""
    merge_types: MergeTypes | None = None
    """How objects are merged, in each served version; None: as their values suggest."""
    warnings: Sequence[str] = ()
    """Sent with every answer, such as the deprecation of the version."""
    storage_version_hash: str = ""
    rest: Code | None = None
    """What serves the resource; None for stored objects."""
    annotated: bool = True
    """Whether answers of one cluster, too, name it in an annotation."""
    renderer: Renderer = field(init=False)
    group_resource: GroupResource = field(init=False)
    key: GroupVersionResource = field(init=False)
    group_version: str = field(init=False)
    """As in `apiVersion`."""
    storage_group_version: str = field(init=False)
    """The `apiVersion` of stored objects."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The source of `schema`, for OpenAPI publication."""
    upstream_model: str = ""
    """The name under which Kubernetes publishes the type; empty for kinds of CRDs, whose names follow from their groups."""

    discoverable: bool = True
    """Whether discovery and OpenAPI describe the resource."""
    cost: Shared | None = None
    """The memory of the compiled form of all versions together; None for resources that exist as long as the server."""
    digest: bytes = b""
    """Equal for resources of which all documents say the same; empty where it has to be worked out from the fields."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group_version", f"{self.group}/{self.version}" if self.group else self.version)
        stored_group = self.group if self.storage_group is None else self.storage_group
        stored_version = f"{stored_group}/{self.storage_version}" if stored_group else self.storage_version
        object.__setattr__(self, "storage_group_version", stored_version)
        renderer = Renderer(
            api_version=self.group_version,
            stored_api_version=self.storage_group_version,
            kind=self.kind,
            untyped_items=self.typed,
            annotated=self.annotated,
            same_form=self.schema is self.storage_schema and (self.converter is None or self.group_version == self.storage_group_version),
        )
        object.__setattr__(self, "renderer", renderer)
        one = self.namespace_object
        object.__setattr__(self, "has_defaults", self.default_objects is not None or one is not None)
        object.__setattr__(self, "lists_defaults", self.default_objects is not None or (one is not None and one.listed))
        object.__setattr__(self, "has_status", "status" in self.subresources)
        object.__setattr__(self, "group_resource", GroupResource(self.group, self.resource))
        object.__setattr__(self, "key", GroupVersionResource(self.group, self.version, self.resource))

    def shows_defaults(self, name: str = "") -> bool:
        """Whether a list or a watch of one cluster shows objects that nothing is stored of.

        Args:
            name: the one name that it is restricted to; empty for none.
        """
        one = self.namespace_object
        return self.lists_defaults or (one is not None and one.name == name)

    @property
    def accepts(self) -> Sequence[str]:
        """Further values of `apiVersion` in bodies: none."""
        return ()

    @property
    def group_version_kind(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


def view_of(resource: ServedResource, subresource: str) -> View:
    """What an update through a subresource may change; an empty name stands for the object itself."""
    return resource.subresources[subresource].view if subresource else WHOLE


def scale_paths(resource: ServedResource, subresource: str) -> ScalePaths | None:
    """Where the values of a Scale are, of a request for one; None for any other request."""
    found = resource.subresources.get(subresource) if subresource else None
    return found.scale if found is not None else None


class Served(NamedTuple):
    """A resource as one cluster serves it right now."""

    resource: ServedResource
    fresh_since: int = 0
    """Objects written at or after this revision obey the present schema; older ones are pruned and defaulted when they are read."""
    guards: tuple[Compare, ...] = ()
    """Hold as long as the cluster serves the resource in this form: conditions of every write of an object."""
    life: tuple[Compare, ...] = ()
    """Hold, by `create_revision`, as long as the objects exist that guards look at, whatever changes in them, and not for others of their
    names."""
    origin: Origin | None = None
    """Of default objects, where they come with the CRD; None: they come with the cluster."""
    per_cluster: bool = False
    """Whether clusters differ in the resource: of objects of another cluster, the table of that cluster has to be asked."""
    shared: object = None
    """What the resource shares with those of other clusters. Held here, so that it stays as long as a cluster needs it."""
