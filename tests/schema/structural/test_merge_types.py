"""Field ownership as schemas define it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schema.reading import merge_type


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, ("scalar", False, "")),
        ({"type": "array", "items": {"type": "string"}}, ("list", True, "")),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ("list", False, "set")),
        ({"type": "object", "properties": {"a": {}}}, ("map", False, "")),
        ({"type": "object", "x-kubernetes-map-type": "atomic"}, ("map", True, "")),
        ({"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": True}, ("map", True, "")),
        ({"x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": True}, ("deduced", True, "")),
        ({"$ref": "#/definitions/io.k8s.apimachinery.pkg.runtime.RawExtension"}, ("deduced", True, "")),
        ({"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"}, ("scalar", False, "")),
        ({"x-kubernetes-int-or-string": True}, ("scalar", False, "")),
        ({"x-kubernetes-preserve-unknown-fields": True}, ("deduced", False, "")),
        ({}, ("deduced", False, "")),
    ],
)
def test_kinds(schema: dict[str, Any], expected: tuple[str, bool, str]):
    """Lists are atomic unless they say otherwise, maps are not, and what has no type is deduced."""
    found = merge_type(schema)
    assert (found.kind, found.atomic, found.list_type) == expected


@pytest.mark.parametrize(
    ("schema", "scalar"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "byte"}, "string"),
        ({"type": "string", "format": "date-time"}, "untyped"),
        ({"type": "integer"}, "numeric"),
        ({"type": "number", "format": "double"}, "numeric"),
        ({"type": "boolean"}, "boolean"),
        ({"x-kubernetes-int-or-string": True}, ""),
    ],
)
def test_scalars(schema: dict[str, Any], scalar: str):
    """An apply knows what a scalar has to be; texts of a special form may be other scalars."""
    assert merge_type(schema).scalar == scalar


def test_unknown_fields_below_those_that_are_preserved():
    """An apply takes unknown fields everywhere below a node that preserves them."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"kept": {**inner, "x-kubernetes-preserve-unknown-fields": True}, "strict": inner}}
    schema["properties"]["kept"]["properties"] = {"inner": inner}  # type: ignore[index]
    found = merge_type(schema)
    assert found.fields["kept"].fields["inner"].element is not None
    assert found.fields["strict"].element is None
    assert merge_type({"type": "object", "additionalProperties": False}).element is None


def test_references_say_whether_they_are_atomic():
    """An atomic definition is granular where the place that refers to it says so, and the reverse."""
    definitions = {"Reference": {"type": "object", "properties": {"name": {"type": "string"}}, "x-kubernetes-map-type": "atomic"}}
    reference = {"$ref": "#/definitions/Reference"}
    assert merge_type(reference, definitions).atomic
    assert not merge_type({"allOf": [reference], "x-kubernetes-map-type": "granular"}, definitions).atomic


def test_key_defaults():
    """Keys that items may leave out have the defaults of the schema, through references too."""
    definitions = {"Port": {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}}
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"$ref": "#/definitions/Port"},
    }
    found = merge_type(schema, definitions)
    assert found.keys == ("port", "protocol")
    assert found.key_defaults == {"protocol": "TCP"}


def test_metadata():
    """Every object has metadata with sets, maps and atomic references."""
    fields = merge_type({"type": "object"}, resource=True).fields["metadata"].fields
    assert fields["finalizers"].list_type == "set"
    assert fields["ownerReferences"].keys == ("uid",)
    assert fields["labels"].kind == "map"


def test_recursion():
    """A definition may refer to itself."""
    definitions = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/Node"}, "name": {"type": "string"}}}}
    found = merge_type({"$ref": "#/definitions/Node"}, definitions)
    assert found.fields["next"] is found
