"""The types of a schema for field ownership: which maps and lists are merged part by part.

Source: kube-openapi `pkg/schemaconv`. Lists are atomic unless the schema says otherwise, maps and objects are granular; the type of a node
without a type is deduced from its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kcp_py.apimachinery.managedfields.types import ANYTHING, BOOLEAN, DEDUCED, NUMERIC, SCALAR, STRING, UNTYPED, MergeType
from kcp_py.schema.structural.nodes import NO_DEFAULT, Node

__all__ = ["merge_type"]

_METADATA: Final = MergeType(
    kind="map",
    fields={
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), STRING),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), NUMERIC),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), UNTYPED),
        "labels": MergeType(kind="map", element=STRING),
        "annotations": MergeType(kind="map", element=STRING),
        "finalizers": MergeType(kind="list", list_type="set", element=STRING),
        "ownerReferences": MergeType(
            kind="list",
            list_type="map",
            keys=("uid",),
            key_defaults={"uid": ""},
            element=MergeType(
                kind="map",
                atomic=True,
                fields={
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), STRING),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), BOOLEAN),
                },
            ),
        ),
    },
)
"""ObjectMeta, which no CRD's schema describes."""

_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": UNTYPED,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
}
"""Definitions that upstream's conversion treats by name."""


def merge_type(root: Node, definitions: Mapping[str, Node] | None = None, *, resource: bool = False) -> MergeType:
    """The type of a schema.

    Args:
        root: the schema.
        definitions: the schemas that its references name. They may refer to themselves.
        resource: whether it is the root of an object, where apiVersion, kind and metadata exist without a declaration.
    """
    return _Reader(definitions or {}).read(root, resource=resource)


class _Reader:
    """Reads the types of one schema."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._types: dict[str, MergeType] = {}

    def read(self, node: Node, *, resource: bool = False, preserve: bool = False) -> MergeType:
        """The type of a node.

        Args:
            node: the node.
            resource: whether it is the root of an object.
            preserve: whether a node above it preserves unknown fields. Here alone, upstream applies that to all nodes below.
        """
        if node.target:
            return _related(self._definition(node.target), node.map_type)
        if node.int_or_string:
            return SCALAR
        kind = node.kind
        if kind == "array":
            return self._list(node, preserve=preserve)
        if kind == "object" or resource or node.properties:
            return self._map(node, resource=resource or node.embedded, preserve=preserve)
        if kind:
            return _scalar(kind, node.format)
        return ANYTHING if node.map_type == "atomic" else DEDUCED

    def _definition(self, name: str) -> MergeType:
        """The type of a definition, which may refer to itself."""
        if name in _SPECIAL:
            return _SPECIAL[name]
        if (found := self._types.get(name)) is not None:
            return found
        node = self._definitions.get(name)
        if node is None:
            return DEDUCED
        fields: dict[str, MergeType] = {}
        # References to the definition from inside of it get this object. Its fields are filled in below.
        placeholder = MergeType(kind="map", fields=fields, atomic=node.map_type == "atomic")
        self._types[name] = placeholder
        found = self.read(node)
        if found.kind != "map" or found.element is not None:
            self._types[name] = found
            return found
        fields.update(found.fields)
        return placeholder

    def _list(self, node: Node, *, preserve: bool) -> MergeType:
        """A list. Where its elements have keys, the defaults of the keys are part of the type."""
        element = ANYTHING if node.items is None else self.read(node.items, preserve=preserve or node.preserve)
        if node.list_type not in {"set", "map"}:
            return MergeType(kind="list", atomic=True, element=element)
        keys = node.list_map_keys
        return MergeType(
            kind="list", list_type=node.list_type, element=element, keys=keys, key_defaults=self._key_defaults(node.items, keys)
        )

    def _key_defaults(self, items: Node | None, keys: tuple[str, ...]) -> dict[str, Any]:
        """The values of keys that an element leaves out."""
        while items is not None and items.ref:
            items = self._definitions.get(items.ref)
        properties = {} if items is None else items.properties
        return {name: properties[name].default for name in keys if name in properties and properties[name].default is not NO_DEFAULT}

    def _map(self, node: Node, *, resource: bool, preserve: bool) -> MergeType:
        """An object or a map."""
        preserve = preserve or node.preserve
        fields = {name: self.read(child, preserve=preserve) for name, child in node.properties.items()}
        if resource:
            fields |= {"apiVersion": STRING, "kind": STRING, "metadata": _METADATA}
        element = None
        if isinstance(node.additional, Node):
            element = self.read(node.additional, preserve=preserve)
        elif node.additional is True or (node.additional is None and (preserve or not fields)):
            element = DEDUCED
        return MergeType(kind="map", atomic=node.map_type == "atomic", fields=fields, element=element)


def _scalar(kind: str, form: str) -> MergeType:
    """The type of a scalar. Strings with a format may also be applied as other types."""
    match kind:
        case "integer" | "number":
            return NUMERIC
        case "boolean":
            return BOOLEAN
        case "string":
            return STRING if form in {"", "byte"} else UNTYPED
        case _:
            return SCALAR


def _related(kind: MergeType, relation: str) -> MergeType:
    """A type as it is where a reference makes it atomic or granular."""
    if relation not in {"atomic", "granular"} or kind.kind != "map" or kind.atomic == (relation == "atomic"):
        return kind
    return replace(kind, atomic=relation == "atomic")
