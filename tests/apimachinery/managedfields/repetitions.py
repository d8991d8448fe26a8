"""Objects of one kind, with fields of many types, that managers write again and again with other values."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from kcp_py.apimachinery.managedfields.entries import Managed
from kcp_py.apimachinery.managedfields.fieldsets import FieldSet
from kcp_py.apimachinery.managedfields.ownership import Versions
from kcp_py.apimachinery.managedfields.tracking import ManagedWrite, track_apply
from tests.schema.reading import merge_type

V1 = "example.com/v1"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SPEC = {
    "size": {"type": "integer"},
    "ratio": {"type": "number"},
    "on": {"type": "boolean"},
    "deep": {"type": "object", "properties": {"a": {"type": "integer"}, "b": TEXTS}},
    "texts": TEXTS,
    "parts": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "whole": {**TEXTS, "x-kubernetes-map-type": "atomic"},
    "steps": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}, "deep": TEXTS}},
    },
}
KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": SPEC},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    },
    resource=True,
)
VERSIONS = Versions(V1, KIND, lambda obj, _version: (KIND, obj), key=object())


def widget(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "namespace": "default"}
    return {"apiVersion": V1, "kind": "Widget", "metadata": metadata | ({"labels": labels} if labels else {}), "spec": spec}


def by(name: str, second: int = 0, ignored: FieldSet | None = None) -> ManagedWrite:
    return ManagedWrite(name=name, time=f"2024-01-01T00:00:0{second}Z", ignored=ignored or {"f:status": {}})


def applied(*configs: tuple[str, dict[str, Any]]) -> tuple[dict[str, Any], Managed]:
    """An object that several managers have applied parts of."""
    live: dict[str, Any] | None = None
    known: Managed | None = None
    for name, config in configs:
        live, known = track_apply(VERSIONS, live, copy.deepcopy(config), by(name), force=True, known=known)
        live["metadata"]["uid"] = "1"
    assert live is not None
    assert known is not None
    return live, known


FULL = widget(
    {"l": "1"},
    size=1,
    ratio=1.5,
    on=True,
    deep={"a": 1, "b": {"x": "1"}},
    texts={"t": "1"},
    parts={"p": {"n": 1}},
    whole={"w": "1"},
    steps=[{"n": 1}],
)

small = st.integers(0, 2)
texts = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": small | st.none(),
        "ratio": st.sampled_from([0, 1.0, 1.5]),
        "on": st.booleans(),
        "deep": st.fixed_dictionaries({}, optional={"a": small, "b": texts}),
        "texts": texts,
        "parts": st.dictionaries(st.sampled_from("ab"), st.fixed_dictionaries({}, optional={"n": small}), max_size=2),
        "whole": texts,
        "steps": st.lists(st.fixed_dictionaries({"n": small}), max_size=2),
        "free": st.dictionaries(st.sampled_from("ab"), small | texts, max_size=2),
        "items": st.lists(
            st.fixed_dictionaries({"k": st.sampled_from("abc")}, optional={"v": small, "deep": texts}),
            max_size=3,
            unique_by=lambda item: item["k"],
        ),
    },
)


def varied(value: Any, chance: Any) -> Any:
    """A value of equal shape, with other scalars here and there."""
    if isinstance(value, dict):
        return {name: varied(part, chance) for name, part in value.items()}
    if isinstance(value, list) or not chance.getrandbits(1):
        return value
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "z"
    return value
