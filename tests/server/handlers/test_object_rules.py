"""The rules of structural schemas as clients meet them: one object each, and the resulting object or refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, instance, make_crd
from tests.server.handlers.widgets import MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
KEYED = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "alpha": {"type": "string", "pattern": "^[a-zA-Z0-9_]*$", "maxLength": 5},
        "beta": {"type": "number", "minimum": 10},
        "gamma": {"type": "string", "enum": ["foo", "bar", "baz"]},
        "zero": {"type": "number", "default": 0.0},
        "small": {"type": "integer", "format": "int32"},
        "big": {"type": "integer", "format": "int64"},
        "either": {"x-kubernetes-int-or-string": True},
        "nullable": {"type": "string", "nullable": True},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"], "items": KEYED},
        "set": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic", **PRESERVE},
        },
        "any": {"type": "object", "additionalProperties": True},
        "some": {"enum": [1, 2.5], **PRESERVE},
        "list": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "tenths": {"type": "number", "multipleOf": 0.1},
        "items": {"type": "object", "properties": {"type": {"type": "string"}, "properties": {"type": "integer"}}},
    },
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "pattern": ({"alpha": "a-b"}, "alpha: Invalid value: \"a-b\": alpha in body should match '^[a-zA-Z0-9_]*$'"),
    "length": ({"alpha": "longer"}, "alpha: Too long: may not be more than 5 bytes"),
    "type": ({"alpha": 1}, 'alpha: Invalid value: "integer": alpha in body must be of type string: "integer"'),
    "minimum": ({"beta": 5}, "beta: Invalid value: 5: beta in body should be greater than or equal to 10"),
    "enum": ({"gamma": "qux"}, 'gamma: Unsupported value: "qux": supported values: "foo", "bar", "baz"'),
    "enum of numbers": ({"some": 2}, 'some: Unsupported value: 2: supported values: "1", "2.5"'),
    "int32": ({"small": 2**31}, "Checked value must be of type integer with format int32 in small"),
    "int64": ({"big": 2**63}, 'big: Invalid value: "float64": big in body must be of type int64: "float64"'),
    "int-or-string": ({"either": True}, 'either: Invalid value: "boolean": either in body must be of type integer,string: "boolean"'),
    "items": ({"list": ["a", "b", "c"]}, "list: Too many: 3: must have at most 2 items"),
    "multiple": ({"tenths": 0.35}, "tenths: Invalid value: 0.35: tenths in body should be a multiple of 0.1"),
    "a null in a list": ({"list": [None]}, 'list[0]: Invalid value: "null": list[0] in body must be of type string: "null"'),
    "map keys": (
        {"map": [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1, "b": 1}]},
        'map[3]: Duplicate value: {"a":1,"b":1}',
    ),
    "set": ({"set": [{"a": 1}, {"b": 1}, {"a": 1}]}, 'set[2]: Duplicate value: {"a":1}'),
    "embedded without type": ({"embedded": {}}, "[embedded.apiVersion: Required value, embedded.kind: Required value]"),
    "embedded kind": ({"embedded": {"apiVersion": "v1", "kind": "%"}}, 'embedded.kind: Invalid value: "%": may have mixed case'),
    "embedded name": (
        {"embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": ".."}}},
        "embedded.metadata.name: Invalid value: \"..\": may not be '..'",
    ),
    "a property called items": ({"items": {"type": 1}}, "items.type in body must be of type string"),
}

KEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exact integers": ({"big": 2**63 - 1}, {"big": 2**63 - 1}),
    "integers beyond doubles": ({"big": 2**53 + 1}, {"big": 2**53 + 1}),
    "an integral float is an integer": ({"small": 1.0}, {"small": 1}),
    "equal numbers of an enum": ({"some": 1.0}, {"some": 1}),
    "zero values": ({"alpha": "", "list": [], "any": {}, "items": {}}, {"alpha": "", "list": [], "any": {}, "items": {}}),
    "null where it may be": ({"nullable": None}, {"nullable": None}),
    "null where it may not be": ({"gamma": None, "either": None}, {}),
    "null with a default": ({"zero": None}, {}),
    "int or string": ({"either": "5%"}, {"either": "5%"}),
    "objects in a map of anything are emptied": (
        {"any": {"k": 1, "o": {"x": 1}, "l": [{"x": 1}, 2]}},
        {"any": {"k": 1, "o": {}, "l": [{}, 2]}},
    ),
    "embedded metadata has known fields only": (
        {"embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "x": 1}, "spec": {"x": 1}}},
        {"embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"x": 1}}},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(api: Api, case: str) -> None:
    """With upstream's path, value and words, in the message and as a cause."""
    fields, problem = REFUSED[case]
    await install(api, make_crd(schema=SCHEMA))
    status = await api.fails(422, "POST", WIDGETS, instance("one", **fields))
    assert problem in status["message"]
    assert status["message"].startswith('Widget.example.com "one" is invalid: ')
    for cause in status["details"]["causes"]:
        assert f"{cause['field']}: {cause['message']}" in status["message"]


async def test_embedded_resources_of_the_wrong_types_are_not_decoded(api: Api) -> None:
    """400 when written, before any rule of the schema; for a patch, 422 of its result."""
    await install(api, make_crd(schema=SCHEMA))
    resource = {"apiVersion": "v1", "kind": "K", "metadata": {"namespace": 42}}
    problem = (
        'embedded.metadata: Invalid value: {"namespace":42}: json: cannot unmarshal number into Go struct field ObjectMeta.namespace '
        "of type string"
    )
    status = await api.fails(400, "POST", WIDGETS, instance("one", embedded=resource, items=1))
    assert status["message"] == f'Widget in version "v1" cannot be handled as a Widget: {problem}'
    await api.ok("POST", WIDGETS, instance("one"))
    status = await api.fails(422, "PATCH", f"{WIDGETS}/one", {"embedded": resource}, headers=MERGE)
    assert status["details"]["causes"][0]["field"] == "patch"
    assert status["message"].endswith(problem)


@pytest.mark.parametrize("case", KEPT)
async def test_kept(api: Api, case: str) -> None:
    """The stored value and the answer; a default of 0.0 is the integer that Go makes of it."""
    fields, kept = KEPT[case]
    await install(api, make_crd(schema=SCHEMA))
    created = await api.ok("POST", WIDGETS, instance("one", **fields))
    assert {name: value for name, value in created.items() if name in SCHEMA["properties"]} == {**kept, "zero": 0}
    assert type(created["zero"]) is int
    assert await api.ok("GET", f"{WIDGETS}/one") == created


async def test_metadata_is_read_as_a_typed_decoder_reads_it(api: Api) -> None:
    """Wrong types are a 400; unknown fields go; wrong values come before everything else that is wrong."""
    await install(api, make_crd(schema=SCHEMA))
    obj = instance("one")
    obj["metadata"]["labels"] = {"foo": 42}
    status = await api.fails(400, "POST", WIDGETS, obj)
    assert status["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field '
        "ObjectMeta.labels of type string"
    )
    obj["metadata"]["labels"] = {"foo": "x y"}
    status = await api.fails(422, "POST", WIDGETS, {**obj, "embedded": {"apiVersion": "v1", "kind": "%"}})
    assert status["message"].startswith('Widget.example.com "one" is invalid: [metadata.labels: Invalid value: "x y"')
    obj["metadata"] = {"name": "one", "unknown": 1, "generation": 7}
    created = await api.ok("POST", WIDGETS, obj)
    assert "unknown" not in created["metadata"]
    assert created["metadata"]["generation"] == 1
