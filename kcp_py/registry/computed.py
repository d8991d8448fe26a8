"""Resources that no store holds: described by their author, served by a `RestStorage`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apimachinery.meta.table import Column
from kcp_py.registry.custom_resources import printer_columns
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.kinds import ANY_OBJECT
from kcp_py.registry.rest.storage import RestStorage
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import CUSTOM_STATUS, Subresource
from kcp_py.registry.views import WHOLE
from kcp_py.schema.compilation import compile_schema
from kcp_py.storage.keys import resource_keys


@dataclass(frozen=True, kw_only=True)
class ComputedResource:
    """A resource of every logical cluster, by name and by the code that serves it.

    ::

        class Quotes(RestStorage):
            async def list(self, request): ...
            async def get(self, request): ...

        ComputedResource(group="example.com", version="v1", resource="quotes", kind="Quote", rest=Quotes())
    """

    group: str
    version: str
    resource: str
    """The plural."""
    kind: str
    rest: RestStorage
    singular: str = ""
    """By default the kind in lower case."""
    namespaced: bool = True
    schema: Mapping[str, Any] = field(default_factory=lambda: ANY_OBJECT)
    """OpenAPI v3, structural, as in a CRD. Bodies are pruned and filled with defaults by it."""
    columns: Sequence[Mapping[str, Any]] = ()
    """Of the Table form, as `additionalPrinterColumns` of a CRD; by default name and age."""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    subresources: Mapping[str, RestStorage] = field(default_factory=dict)
    """Name -> what serves it."""
    subresource_kinds: Mapping[str, GroupVersionKind] = field(default_factory=dict)
    """The kinds of those that are not of the kind of the resource."""

    def served(self, root: str) -> ServedResource:
        """The resource as clusters serve it. `root` is the prefix of the store's keys."""
        schema = compile_schema(self.schema)
        columns: Sequence[Column] = printer_columns(list(self.columns) or None)
        return ServedResource(
            group=self.group,
            version=self.version,
            resource=self.resource,
            kind=self.kind,
            list_kind=f"{self.kind}List",
            singular=self.singular or self.kind.lower(),
            namespaced=self.namespaced,
            keys=resource_keys(root, self.group, self.resource, namespaced=self.namespaced),
            strategy=Strategy(),
            columns=columns,
            storage_version=self.version,
            schema=schema,
            storage_schema=schema,
            short_names=tuple(self.short_names),
            categories=tuple(self.categories),
            verbs=self.rest.verbs,
            subresources={name: self._subresource(name, rest) for name, rest in self.subresources.items()},
            typed=False,
            document=self.schema,
            merge_types=MergeTypes({f"{self.group}/{self.version}" if self.group else self.version: schema.root}),
            rest=self.rest,
            strategic_merge=self.schema,
        )

    def _subresource(self, name: str, rest: RestStorage) -> Subresource:
        """An entry of the table. Owners of fields are kept through a status as through that of a custom resource."""
        view = CUSTOM_STATUS.view if name == CUSTOM_STATUS.name else WHOLE
        return Subresource(name, rest.verbs, self.subresource_kinds.get(name), view, rest=rest)
