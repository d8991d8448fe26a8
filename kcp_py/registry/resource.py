"""`ServedResource`: all that the handlers know of a resource. Built-ins and CRDs are both described by it; no handler knows a kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.apimachinery.table import Column
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.contract import CompiledSchema
from kcp_py.storage.keys import ResourceKeys

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of an ordinary resource, in the order of discovery."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    verbs: Sequence[str] = ALL_VERBS
    has_status: bool = False
    """Whether `/status` is served."""
    builtin: bool = True
    """Whether the kind is compiled into clients: list items then carry no kind, and strategic merge patch is accepted."""
    field_labels: Mapping[str, str] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace: label -> dotted path in the object."""
    strategic_merge: Mapping[str, Any] | None = None
    """The OpenAPI schema that drives strategic merge patch; None where it is answered with 415."""
    warnings: Sequence[str] = ()
    """Sent with every answer, such as the deprecation of the version."""
    storage_version_hash: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The source of `schema`, for OpenAPI publication."""

    @property
    def group_version(self) -> str:
        """As in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_group_version(self) -> str:
        """The `apiVersion` of stored objects."""
        return f"{self.group}/{self.storage_version}" if self.group else self.storage_version

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @property
    def group_version_kind(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)
