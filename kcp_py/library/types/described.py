"""`TypedResource`: the properties of a resource that a class describes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from kcp_py.library.types.columns import column_document
from kcp_py.library.types.fields import DefinitionError, fields_of
from kcp_py.library.types.schemas import schema_of_resource
from kcp_py.registry.strategy import Strategy

ATTRIBUTE: Final = "__resource__"

HOOKS: Final = (
    "default",
    "prepare_for_create",
    "prepare_for_update",
    "validate_create",
    "validate_update",
    "validate_status_update",
    "validate_delete",
    "warnings",
)
"""The names of hooks. Functions take the object, and those of updates the old one as well; `warnings` the old one or None."""


class TypedResource:
    """What `resource` says about a class, which is its attribute `__resource__`."""

    def __init__(
        self, model: type, *, group: str, version: str, kind: str, plural: str, hub: TypedResource | None, **settings: Any
    ) -> None:
        self.model = model
        self.group = group
        self.version = version
        self.kind = kind
        self.plural = plural
        self.hub = hub
        """The resource of which this is a further version; None for the resource itself."""
        self.spokes: list[TypedResource] = []
        self.place = model.__name__
        self.camel_case: bool = settings["camel_case"]
        """Whether fields without an alias have names in camelCase."""
        self.schema: Mapping[str, Any] = schema_of_resource(model, camel=self.camel_case)
        self.strategy: Strategy | None = settings["strategy"]
        self.storage: bool = settings["storage"]
        self.served: bool = settings["served"]
        self.deprecated: bool | str = settings["deprecated"]
        self.status: bool = "status" in self.schema["properties"] if settings["status"] is None else settings["status"]
        self.scale: Mapping[str, str] | None = settings["scale"]
        self.selectable_fields: Sequence[str] = settings["selectable_fields"]
        self.columns = [column_document(one, self.schema, self.place) for one in settings["columns"]]
        self.singular: str = settings["singular"]
        self.list_kind: str = settings["list_kind"]
        self.short_names: Sequence[str] = settings["short_names"]
        self.categories: Sequence[str] = settings["categories"]
        self.namespaced: bool = settings["scope"] == "Namespaced"
        self.functions: dict[str, list[Callable[..., Any]]] = {}
        """Hooks that are functions, by name."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def versions(self) -> Sequence[TypedResource]:
        """All versions, the hub first."""
        hub = self.hub or self
        return (hub, *hub.spokes)

    def hooks(self, name: str) -> Sequence[Callable[..., Any]]:
        """The hooks of a name: the method of the class, then functions."""
        functions = self.functions.get(name, ())
        return (getattr(self.model, name), *functions) if name in self._methods else functions

    @cached_property
    def _methods(self) -> Collection[str]:
        """The methods of the class that are hooks. Writes ask for them several times, and the fields take long to read."""
        fields = {one.name for one in fields_of(self.model, self.place)}
        return [name for name in HOOKS if inspect.isfunction(getattr(self.model, name, None)) and name not in fields]

    @cached_property
    def converts(self) -> bool:
        """Whether this version is converted by functions, and not by its apiVersion alone."""
        return self.hub is not None and hasattr(self.model, "convert_to")


def typed_resource(cls: type) -> TypedResource:
    """What a class describes.

    Raises:
        DefinitionError: it was not decorated with `resource`.
    """
    found = vars(cls).get(ATTRIBUTE)
    if not isinstance(found, TypedResource):
        raise DefinitionError(f"{getattr(cls, '__name__', cls)} is not a resource: decorate it with @resource")
    return found
