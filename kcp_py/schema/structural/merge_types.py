"""What a schema is to field ownership: which of its maps and lists are taken apart.

Source: kube-openapi `pkg/schemaconv`: lists are atomic unless they say otherwise, maps and objects granular; what has no type is deduced
from its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kcp_py.apimachinery.managedfields.types import ANYTHING, BOOLEAN, DEDUCED, NUMERIC, SCALAR, STRING, UNTYPED, MergeType

__all__ = ["merge_type"]

Schema = Mapping[str, Any]

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
"""Definitions that upstream's conversion knows by name."""


def merge_type(schema: Schema, definitions: Mapping[str, Schema] | None = None, *, resource: bool = False) -> MergeType:
    """The type of a schema.

    Args:
        schema: the document; it is read, never kept.
        definitions: what its `$ref`s stand for; they may refer to themselves.
        resource: the root of an object: apiVersion, kind and metadata are there without being declared.
    """
    return _Reader(definitions or {}).read(schema, resource=resource)


class _Reader:
    """One run over one document."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._known: dict[str, MergeType] = {}

    def read(self, schema: Schema, *, resource: bool = False, preserve: bool = False) -> MergeType:
        """One node and what is below.

        Args:
            schema: the node.
            resource: it is the root of an object.
            preserve: a node above it preserves unknown fields, which goes for all that is below (upstream says so only here).
        """
        ref = schema.get("$ref")
        parts = schema.get("allOf")
        if ref is None and isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], Mapping):
            ref = parts[0].get("$ref")  # how published documents give a reference a description or a default
        if ref is not None:
            return _related(self._definition(str(ref).rpartition("/")[2]), schema)
        if schema.get("x-kubernetes-int-or-string"):
            return SCALAR
        kinds = schema.get("type")
        kind = next((name for name in kinds if name != "null"), "") if isinstance(kinds, list) else kinds
        if kind == "array":
            return self._list(schema, preserve=preserve)
        if kind == "object" or resource or "properties" in schema:
            return self._map(schema, resource=resource or bool(schema.get("x-kubernetes-embedded-resource")), preserve=preserve)
        if kind:
            return _scalar(kind, schema.get("format"))
        return ANYTHING if schema.get("x-kubernetes-map-type") == "atomic" else DEDUCED

    def _definition(self, name: str) -> MergeType:
        """A named schema, which may be one that is being read."""
        if name in _SPECIAL:
            return _SPECIAL[name]
        if (known := self._known.get(name)) is not None:
            return known
        schema = self._definitions.get(name)
        if schema is None:
            return DEDUCED
        fields: dict[str, MergeType] = {}
        # Its fields are filled in below: whoever refers to it meanwhile gets the same object.
        placeholder = MergeType(kind="map", fields=fields, atomic=schema.get("x-kubernetes-map-type") == "atomic")
        self._known[name] = placeholder
        found = self.read(schema)
        if found.kind != "map" or found.element is not None:
            self._known[name] = found
            return found
        fields.update(found.fields)
        return placeholder

    def _list(self, schema: Schema, *, preserve: bool) -> MergeType:
        """A list; of objects with keys, the defaults of the keys count."""
        items = schema.get("items")
        preserve = preserve or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        element = self.read(items, preserve=preserve) if isinstance(items, Mapping) else ANYTHING
        list_type = schema.get("x-kubernetes-list-type")
        if list_type not in {"set", "map"}:
            return MergeType(kind="list", atomic=True, element=element)
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return MergeType(kind="list", list_type=list_type, element=element, keys=keys, key_defaults=self._key_defaults(items, keys))

    def _key_defaults(self, items: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        """What keys are where an element leaves them out."""
        while isinstance(items, Mapping) and "$ref" in items:
            items = self._definitions.get(str(items["$ref"]).rpartition("/")[2])
        properties = (items.get("properties") or {}) if isinstance(items, Mapping) else {}
        found = {name: (properties.get(name) or {}).get("default") for name in keys}
        return {name: value for name, value in found.items() if value is not None}

    def _map(self, schema: Schema, *, resource: bool, preserve: bool) -> MergeType:
        """An object or a map."""
        preserve = preserve or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        properties = schema.get("properties") or {}
        fields = {name: self.read(child, preserve=preserve) for name, child in properties.items() if isinstance(child, Mapping)}
        if resource:
            fields |= {"apiVersion": STRING, "kind": STRING, "metadata": _METADATA}
        additional = schema.get("additionalProperties")
        element = None
        if isinstance(additional, Mapping):
            element = self.read(additional, preserve=preserve)
        elif additional is True or (additional is None and (preserve or not fields)):
            element = DEDUCED
        return MergeType(kind="map", atomic=schema.get("x-kubernetes-map-type") == "atomic", fields=fields, element=element)


def _scalar(kind: str, form: Any) -> MergeType:
    """What may be applied to a scalar: texts of a special form may be of other types, too."""
    match kind:
        case "integer" | "number":
            return NUMERIC
        case "boolean":
            return BOOLEAN
        case "string":
            return STRING if form in {None, "", "byte"} else UNTYPED
        case _:
            return SCALAR


def _related(kind: MergeType, schema: Schema) -> MergeType:
    """A type, atomic or granular as the place that refers to it says."""
    relation = schema.get("x-kubernetes-map-type")
    if relation not in {"atomic", "granular"} or kind.kind != "map" or kind.atomic == (relation == "atomic"):
        return kind
    return replace(kind, atomic=relation == "atomic")
