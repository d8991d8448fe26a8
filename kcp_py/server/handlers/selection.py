"""Which objects a list or a watch is for: label and field selectors over decoded objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fieldselectors import FieldSelector
from kcp_py.apimachinery.metaoptions import ListOptions
from kcp_py.apimachinery.selectors import LabelSelector
from kcp_py.registry.resource import ServedResource


class Selection:
    """The selectors of one request, checked against what the resource can select by."""

    __slots__ = ("_fields", "_labels", "_missing", "_paths", "empty", "name")

    def __init__(self, options: ListOptions, resource: ServedResource) -> None:
        """Check the field labels.

        Raises:
            StatusError: 400 for a field that the resource cannot be selected by.
        """
        self._labels: LabelSelector = options.label_selector
        self._fields: FieldSelector = options.field_selector
        self._paths: dict[str, tuple[str, ...]] = {}
        self._missing: dict[str, str] = {}
        for requirement in self._fields.requirements:
            path = self._paths[requirement.field] = _path(requirement.field, resource)
            self._missing[requirement.field] = _zero(path, resource)
        self.empty = self._labels.empty and self._fields.empty
        self.name = self._fields.requires_exact_match("metadata.name") or ""
        """The one name that is selected; empty where names are not restricted to one."""

    @property
    def names_only(self) -> bool:
        """Whether the selection says nothing but the name."""
        return bool(self.name) and self._labels.empty and len(self._fields.requirements) == 1

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object, in the version of the request, is selected."""
        if not self._labels.empty and not self._labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return self._fields.empty or self._fields.matches(lambda field: _text_at(obj, self._paths[field]) or self._missing[field])


def _path(field: str, resource: ServedResource) -> tuple[str, ...]:
    if field == "metadata.name" or (field == "metadata.namespace" and resource.namespaced):
        return tuple(field.split("."))
    path = resource.field_labels.get(field)
    if path is None:
        if resource.builtin:
            known = '"metadata.name", "metadata.namespace"' if resource.namespaced else '"metadata.name"'
            raise errors.bad_request(f'"{field}" is not a known field selector: only {known}')
        raise errors.bad_request(f"field label not supported: {field}")
    return tuple(path.split("."))


def _zero(path: tuple[str, ...], resource: ServedResource) -> str:
    """What a field that is not there is selected by: in kinds that clients have compiled in, the zero value of its type."""
    if not resource.builtin or path[0] == "metadata":
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
