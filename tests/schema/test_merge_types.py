"""What schemas say of field ownership."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.merge_types import merge_type


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, ("scalar", False, "")),
        ({"type": "array", "items": {"type": "string"}}, ("list", True, "")),
        ({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}, ("list", False, "set")),
        ({"type": "object", "properties": {"a": {}}}, ("map", False, "")),
        ({"type": "object", "x-kubernetes-map-type": "atomic"}, ("map", True, "")),
        ({"x-kubernetes-int-or-string": True}, ("scalar", False, "")),
        ({"x-kubernetes-preserve-unknown-fields": True}, ("deduced", False, "")),
        ({}, ("deduced", False, "")),
    ],
)
def test_kinds(schema: dict[str, Any], expected: tuple[str, bool, str]):
    """Lists are atomic unless they say otherwise, maps are not, and what has no type is deduced."""
    found = merge_type(schema)
    assert (found.kind, found.atomic, found.list_type) == expected


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
