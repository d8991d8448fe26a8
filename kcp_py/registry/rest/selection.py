"""Which objects a list or a watch is for: label and field selectors over decoded objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.fieldselectors import FieldSelector
from kcp_py.apimachinery.meta.options import ListOptions
from kcp_py.apimachinery.meta.selectors import LabelSelector
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store.labels import LabelChoice

_MOST_OTHERS: Final = 100
"""CRDs of other clusters that a selection remembers."""


class _Place(NamedTuple):
    """Where the value of a field is."""

    paths: Sequence[tuple[str, ...]]
    """The first place that has a value counts."""
    zero: str
    """The value of a field that is not there."""


_NO_PLACES: Final[Mapping[str, _Place]] = MappingProxyType({})


class Selection:
    """The selectors of one request, checked against what the resource can select by."""

    __slots__ = ("_fields", "_labels", "_options", "_others", "_places", "_resource", "empty", "name")

    def __init__(self, options: ListOptions, resource: ServedResource) -> None:
        """Check the field labels.

        Raises:
            StatusError: 400 for a field that the resource cannot be selected by.
        """
        self._options = options
        self._resource = resource
        self._others: dict[ServedResource, Selection | None] | None = None
        """Over all clusters, the same selection for other CRDs; None where they do not have the fields. Made when it is needed."""
        self._labels: LabelSelector = options.label_selector
        self._fields: FieldSelector = options.field_selector
        self._places: Mapping[str, _Place] = _NO_PLACES
        if self._fields.requirements:
            self._places = {requirement.field: _place(requirement.field, resource) for requirement in self._fields.requirements}
        self.empty = self._labels.empty and self._fields.empty
        self.name = self._fields.requires_exact_match("metadata.name") or ""
        """The one name that is selected; empty where names are not restricted to one."""

    @property
    def labels(self) -> LabelChoice | None:
        """The choice of a selection that looks at nothing but labels; None for others."""
        return LabelChoice(self._labels) if self._fields.empty and not self._labels.empty else None

    @property
    def names_only(self) -> bool:
        """Whether the selection says nothing but the name."""
        return bool(self.name) and self._labels.empty and len(self._fields.requirements) == 1

    def matches(self, obj: Mapping[str, Any], resource: ServedResource | None = None) -> bool:
        """Whether an object, in the version of the request, is selected.

        Args:
            obj: the object.
            resource: the resource in the object's cluster, where that may be another one.
        """
        if resource is not None and resource is not self._resource and not self._fields.empty:
            other = self._of(resource)
            return other is not None and other.matches(obj)
        if not self._labels.empty and not self._labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return self._fields.empty or self._fields.matches(lambda field: self._text(obj, field))

    def _text(self, obj: Mapping[str, Any], field: str) -> str:
        place = self._places[field]
        for path in place.paths:
            if found := _text_at(obj, path):
                return found
        return place.zero

    def _of(self, resource: ServedResource) -> Selection | None:
        others = self._others
        if others is None:
            others = self._others = {}
        if resource not in others:
            if len(others) >= _MOST_OTHERS:
                others.clear()
            others[resource] = Selection(self._options, resource) if can_select(self._options, resource) else None
        return others[resource]


def can_select(options: ListOptions, resource: ServedResource) -> bool:
    """Whether a resource can be selected by the fields asked for."""
    try:
        for requirement in options.field_selector.requirements:
            _paths(requirement.field, resource)
    except StatusError:
        return False
    return True


def _place(field: str, resource: ServedResource) -> _Place:
    paths = _paths(field, resource)
    return _Place(paths, _zero(paths[0], resource))


def _paths(field: str, resource: ServedResource) -> Sequence[tuple[str, ...]]:
    """Where the value of a field is: the first place that has one counts."""
    if field == "metadata.name" or (field == "metadata.namespace" and resource.namespaced):
        return (tuple(field.split(".")),)
    path = resource.field_labels.get(field)
    if path is None:
        if resource.typed and not resource.field_labels:
            known = '"metadata.name", "metadata.namespace"' if resource.namespaced else '"metadata.name"'
            raise errors.bad_request(f'"{field}" is not a known field selector: only {known}')
        raise errors.bad_request(f"field label not supported: {field}")
    return tuple(tuple(alternative.split(".")) for alternative in path.split("|"))


def _zero(path: tuple[str, ...], resource: ServedResource) -> str:
    """What a field that is not there is selected by: in kinds that clients have compiled in, the zero value of its type."""
    if not resource.typed or path[0] == "metadata":
        return ""
    node = resource.schema.root
    for name in path:
        if name not in node.properties:
            return ""
        node = node.properties[name]
    return "false" if "boolean" in node.types else "0" if "integer" in node.types else ""


def _text_at(obj: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = obj
    for segment in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(segment)
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
