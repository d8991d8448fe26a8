"""The visitor of schema documents."""

from __future__ import annotations

from typing import Any

from kcp_py.schema.documents import VALUE_PARTS, Schema, child_schema, map_parts, parts_of, walk_schema

DOCUMENT: Schema = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "junk": 5},
    "items": [{"type": "number"}],
    "additionalProperties": True,
    "not": {},
    "anyOf": [{"minLength": 1}, {}],
    "dependencies": {"a": ["b"], "c": {"type": "null"}},
}


def test_parts_come_in_the_order_of_the_keywords_with_their_places():
    """Empty schemas count; lists of names, flags and junk are not schemas."""
    steps = [part.step for part in parts_of(DOCUMENT, ("anyOf", "not", "items", "properties", "additionalProperties", "dependencies"))]
    assert steps == ["anyOf[0]", "anyOf[1]", "not", "items[0]", "properties[a]", "dependencies[c]"]


def test_every_schema_is_walked():
    """The root and the schemas below all keywords, once each; an empty schema below a single keyword says nothing."""
    assert len(walk_schema(DOCUMENT)) == 6
    assert walk_schema({"properties": {"a": {"items": {"type": "string"}}}})[-1] == {"type": "string"}


def test_parts_of_a_value_are_replaced():
    """A copy has the transformed schemas; the document itself stays as it is."""

    def marked(schema: Schema) -> dict[str, Any]:
        return {**map_parts(schema, marked), "seen": True}

    document = {"type": "object", "properties": {"a": {"items": {"type": "string"}}, "junk": 5}, "additionalProperties": False}
    assert map_parts(document, marked) == {
        "type": "object",
        "properties": {"a": {"items": {"type": "string", "seen": True}, "seen": True}},
        "additionalProperties": False,
    }
    assert document["properties"] == {"a": {"items": {"type": "string"}}, "junk": 5}
    assert VALUE_PARTS == ("properties", "items", "additionalProperties")


def test_a_keyword_can_hold_something_else_than_a_schema():
    """A flag or a list is not a schema."""
    assert child_schema(DOCUMENT, "additionalProperties") is None
    assert child_schema(DOCUMENT, "items") is None
    assert child_schema(DOCUMENT, "not") == {}
