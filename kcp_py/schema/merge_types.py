"""What a schema is to field ownership: which of its maps and lists are taken apart.

Source: kube-openapi `pkg/schemaconv`: lists are atomic unless they say otherwise, maps and objects granular; what has no type is deduced
from its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType

__all__ = ["merge_type"]

Schema = Mapping[str, Any]

_METADATA: Final = MergeType(
    kind="map",
    fields={
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "selfLink"), SCALAR),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"), SCALAR),
        "labels": MergeType(kind="map", element=SCALAR),
        "annotations": MergeType(kind="map", element=SCALAR),
        "finalizers": MergeType(kind="list", list_type="set", element=SCALAR),
        "ownerReferences": MergeType(
            kind="list",
            list_type="map",
            keys=("uid",),
            element=MergeType(
                kind="map",
                atomic=True,
                fields=dict.fromkeys(("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"), SCALAR),
            ),
        ),
    },
)
"""ObjectMeta, which no CRD's schema describes."""


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

    def read(self, schema: Schema, *, resource: bool = False) -> MergeType:
        """One node and what is below."""
        if ref := schema.get("$ref"):
            return self._definition(str(ref).rpartition("/")[2])
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], Mapping) and "$ref" in parts[0]:
            return self.read(parts[0])  # how published documents give a reference a description or a default
        if schema.get("x-kubernetes-int-or-string"):
            return SCALAR
        kinds = schema.get("type")
        kind = next((name for name in kinds if name != "null"), "") if isinstance(kinds, list) else kinds
        if kind == "array":
            return self._list(schema)
        if kind == "object" or resource or "properties" in schema:
            return self._map(schema, resource=resource or bool(schema.get("x-kubernetes-embedded-resource")))
        return SCALAR if kind else DEDUCED

    def _definition(self, name: str) -> MergeType:
        """A named schema, which may be one that is being read."""
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

    def _list(self, schema: Schema) -> MergeType:
        """A list; of objects with keys, the defaults of the keys count."""
        items = schema.get("items")
        element = self.read(items) if isinstance(items, Mapping) else DEDUCED
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

    def _map(self, schema: Schema, *, resource: bool) -> MergeType:
        """An object or a map."""
        if schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties") and not resource:
            return DEDUCED
        fields = {name: self.read(child) for name, child in (schema.get("properties") or {}).items() if isinstance(child, Mapping)}
        if resource:
            fields |= {"apiVersion": SCALAR, "kind": SCALAR, "metadata": _METADATA}
        additional = schema.get("additionalProperties")
        element = None
        if isinstance(additional, Mapping):
            element = self.read(additional)
        elif additional is True or schema.get("x-kubernetes-preserve-unknown-fields") or not fields:
            element = DEDUCED
        return MergeType(kind="map", atomic=schema.get("x-kubernetes-map-type") == "atomic", fields=fields, element=element)
