"""Schemas of the upstream kinds without references: as a CRD has them, and as a decoder of the kind itself applies them.

Source: Kubernetes documentation "Specifying a structural schema", "Merge strategy".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX
from kcp_py.bootstrap.upstream_kinds import upstream_models
from kcp_py.schema.documents import VALUE_PARTS, Schema, map_parts

_API: Final = "io.k8s.apimachinery.pkg."
_QUANTITY: Final = _API + "api.resource.Quantity"
_OBJECT_META: Final = _API + "apis.meta.v1.ObjectMeta"
_INT_OR_STRING: Final = {"x-kubernetes-int-or-string": True}
_OBJECT: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
_KEPT: Final = frozenset({"type", "format", "required", "default", _LIST_TYPE, _LIST_MAP_KEYS, "x-kubernetes-map-type"})
_MAY_BE_ZERO: Final = frozenset({
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", "lun"), ("io.k8s.api.core.v1.ISCSIVolumeSource", "lun"),
    ("io.k8s.api.resource.v1.ResourcePool", "generation"), ("io.k8s.api.resource.v1beta1.ResourcePool", "generation"),
    ("io.k8s.api.resource.v1beta2.ResourcePool", "generation"), ("io.k8s.api.storage.v1.CSINodeSpec", "drivers"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.GroupResource", "group"),
})  # fmt: skip
"""Required fields whose zero value is valid: Go's decoder cannot tell it from a missing field."""

_UNIQUE: Final = frozenset({
    "containers", "ephemeralContainers", "initContainers", "matchConditions", "resourceClaims", "schedulingGates",
    "topologySpreadConstraints", "variables", "volumeDevices", "volumeMounts", "volumes", "webhooks",
})  # fmt: skip
"""The lists of which upstream refuses elements with equal keys (kubernetes `pkg/apis/*/validation`); of all others it takes them."""
_UNIQUE_IN: Final = frozenset({("io.k8s.api.core.v1.ServiceSpec", "ports")})


_NO_DEFAULTS: Final = frozenset({"io.k8s.api.storage.v1.VolumeAttachment"})
"""Kinds that have types of others without the defaults that these have there."""


class _Form(NamedTuple):
    """What schemas are made for."""

    written: Mapping[str, Schema]
    """Models that are replaced."""
    decoded: bool
    """Whether objects have been decoded as Go does: formats are checked, missing keys of lists are zero."""


_FREE: Final = {_API + "apis.meta.v1.FieldsV1": _OBJECT, _API + "runtime.RawExtension": _OBJECT}
_STRUCTURAL: Final = _Form({**_FREE, _API + "util.intstr.IntOrString": _INT_OR_STRING, _QUANTITY: _INT_OR_STRING}, decoded=False)
_DECODING: Final = _Form({**_STRUCTURAL.written, _QUANTITY: {"type": "string"}}, decoded=True)


@cache
def structural_schema(name: str) -> Schema:
    """The schema of a kind as its CRD has it. Shared: do not change it."""
    root = _Writer(_STRUCTURAL).write(upstream_models()[name], (name,))
    root["properties"] = {**root["properties"], "metadata": {"type": "object"}}
    return root


@cache
def decoding_schema(name: str) -> Schema:
    """The schema of a kind as a decoder of the kind applies it, and its validation as far as this is a matter of form.

    A status has no required fields: a missing field is its zero value.
    """
    root = _Writer(_DECODING).write(upstream_models()[name], (name,))
    if "status" in root["properties"]:
        root["properties"] = {**root["properties"], "status": _without(root["properties"]["status"], "required")}
    return _without(root, "default") if name in _NO_DEFAULTS else root


def _without(schema: Schema, keyword: str) -> dict[str, Any]:
    return map_parts({key: value for key, value in schema.items() if key != keyword}, lambda part: _without(part, keyword))


class _Writer:
    """Writes schemas in one form."""

    def __init__(self, form: _Form) -> None:
        self._form = form

    def write(self, schema: Schema, within: tuple[str, ...]) -> dict[str, Any]:
        """One node and its descendants. A recursive type is free-form inside of itself: a CRD has no references."""
        if (reference := _reference(schema)) is not None:
            name = reference.removeprefix(REFERENCE_PREFIX)
            written = _OBJECT if name in within else self._form.written.get(name)
            resolved = self.write(upstream_models()[name], (*within, name)) if written is None else dict(written)
            return {**resolved, **{key: value for key, value in schema.items() if key in _KEPT}}
        result: dict[str, Any] = {key: value for key, value in schema.items() if key in _KEPT}
        if self._form.decoded:
            result.pop("format", None)
            if "required" in result:
                result["required"] = [field for field in result["required"] if (within[-1], field) not in _MAY_BE_ZERO]
        result |= {key: schema[key] for key in VALUE_PARTS if isinstance(schema.get(key), Mapping)}
        result = map_parts(result, lambda part: self.write(part, within))
        for field, written in result.get("properties", {}).items():
            if self._form.decoded and field not in _UNIQUE and (within[-1], field) not in _UNIQUE_IN:
                written.pop(_LIST_TYPE, None)
                written.pop(_LIST_MAP_KEYS, None)
        if result.get("type") == "object" and not {"properties", "additionalProperties"} & result.keys():
            result["x-kubernetes-preserve-unknown-fields"] = True
        if _LIST_TYPE in result:
            self._mend_list(result)
        return result

    def _mend_list(self, schema: dict[str, Any]) -> None:
        """Drop a list type where there is no list or its elements are free-form; give keys that may be missing a default."""
        items = schema.get("items") or {}
        properties = items.get("properties") or {}
        keys = schema.get(_LIST_MAP_KEYS) or ()
        if schema.get("type") != "array" or not properties.keys() >= set(keys):
            schema.pop(_LIST_TYPE)
            schema.pop(_LIST_MAP_KEYS, None)
        elif not self._form.decoded:
            left_out = [key for key in keys if key not in (items.get("required") or ()) and "default" not in properties[key]]
            for key in left_out:
                # The zero value, which the kind's own decoder gives it.
                properties[key] = {**properties[key], "default": ""}


def _reference(schema: Schema) -> str | None:
    """What a schema stands for, also where published documents give a reference company."""
    if (parts := schema.get("allOf")) is not None and len(parts) == 1:
        schema = parts[0]
    found: str | None = schema.get("$ref")
    return found
