"""Paths into a schema."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.structural.field_paths import FieldPathError
from tests.schema.reading import find_field

NUMBER = {"type": "number"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "foo": {"type": "object", "additionalProperties": {"type": "object", "properties": {"f1": NUMBER}}},
        "a": {
            "type": "object",
            "properties": {
                "bbb": {"type": "object", "properties": {"c": NUMBER, "34": NUMBER}},
                "bbb.c": {"type": "object", "properties": {"a-b34": NUMBER, "it's": NUMBER}},
            },
        },
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": NUMBER}}},
    },
}

FOUND = {
    ".a": ("a",),
    ".a.bbb": ("a", "bbb"),
    ".foo.f1": ("foo", "f1"),
    ".foo.key.f1": ("foo", "key", "f1"),
    ".a['bbb']": ("a", "bbb"),
    ".a['bbb.c'].a-b34": ("a", "bbb.c", "a-b34"),
    ".a['bbb.c']['it\\'s']": ("a", "bbb.c", "it's"),
    ".a.bbb.34": ("a", "bbb", "34"),
    ".list": ("list",),
}


@pytest.mark.parametrize("text", FOUND)
def test_valid_paths(text):
    """Fields and map keys are found, quoted or not."""
    assert find_field(text, SCHEMA).steps == FOUND[text]


REFUSED = {
    ".a.foo": "does not refer to a valid field",
    ".a.bbb[0]": "expected single quoted string but got 0",
    ".list[1]": "expected single quoted string but got 1",
    ".list.a": "does not refer to a valid field",
    "a": "expected [ or . but got: a",
    ".c": "does not refer to a valid field",
    ".a..b": "does not refer to a valid field",
    ".list[-1]": "expected single quoted string but got -1",
    ".list[1.0]": "expected single quoted string but got 1",
    ".": "unexpected end of JSON path",
    "": "unexpected end of JSON path",
    ".a['bbb": "expected single quoted string but got 'bbb",
}


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_paths(text):
    """Mistakes are worded as upstream words them."""
    with pytest.raises(FieldPathError) as caught:
        find_field(text, SCHEMA)
    assert str(caught.value) == REFUSED[text]
