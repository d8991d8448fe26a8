"""What schemas are to CEL."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.limits import LARGEST_REQUEST
from tests.schema.reading import declare
from tests.schema.rules.go_schemas import objects, primitive


@pytest.mark.parametrize(
    ("schema", "kind", "size"),
    [
        (primitive("integer"), "int", None),
        (primitive("number"), "double", None),
        (primitive("boolean"), "bool", None),
        ({**primitive("string"), "maxLength": 3}, "string", 12),
        ({**primitive("string"), "enum": ["a", "abc"]}, "string", 3),
        ({**primitive("string"), "maxLength": 9, "allOf": [{"maxLength": 2}]}, "string", 8),
        (primitive("string"), "string", LARGEST_REQUEST - 2),
        ({**primitive("string", "byte"), "maxLength": 3}, "bytes", 3),
        (primitive("string", "date"), "timestamp", 12),
        (primitive("string", "duration"), "duration", 32),
        ({"x-kubernetes-int-or-string": True}, "dyn", LARGEST_REQUEST - 2),
        ({"type": "array", "items": primitive("string"), "maxItems": 4}, "list", 4),
        ({"type": "object", "additionalProperties": primitive("string"), "maxProperties": -1}, "map", 0),
    ],
)
def test_types_and_their_largest_sizes(schema: dict[str, Any], kind: str, size: int | None):
    """Strings count four bytes for each character; values without a limit are limited by the request."""
    declared = declare(schema)
    assert declared is not None
    assert (declared.type.kind, declared.type.max_size) == (kind, size)


def test_what_says_nothing_of_itself_is_not_seen():
    """Nor is a list or map of it; an object just lacks the field."""
    unknown = {"x-kubernetes-preserve-unknown-fields": True}
    assert declare(unknown) is None
    assert declare({"type": "array", "items": unknown}) is None
    assert declare({"type": "object", "additionalProperties": unknown}) is None
    declared = declare(objects({"a": unknown, "b": primitive("string")}))
    assert declared is not None
    assert list(declared.type.fields or ()) == ["b"]


def test_names_are_escaped_and_keywords_stand_for_themselves_too():
    """A name that cannot be spelled is left out."""
    declared = declare(objects({name: primitive("string") for name in ("a-b", "for", "a@b", "__x")}))
    assert declared is not None
    assert {name: field.key for name, field in (declared.type.fields or {}).items()} == {
        "a__dash__b": "a-b",
        "__for__": "for",
        "for": "for",
        "__underscores__x": "__x",
    }


def test_the_root_of_an_object_has_names_of_bounded_length():
    """The schema of metadata does not count, except for a shorter maxLength of the name."""
    shorter = {"metadata": objects({"name": {**primitive("string"), "maxLength": 10}, "labels": primitive("string")})}
    declared = declare(objects(shorter), resource=True)
    assert declared is not None
    fields = declared.type.fields or {}
    assert {"apiVersion", "kind", "metadata"} == fields.keys()
    names = fields["metadata"].type.fields or {}
    assert {name: field.type.max_size for name, field in names.items()} == {"name": 40, "generateName": 1008}


def test_objects_are_of_one_type_only_in_one_place():
    """Equal schemas in two places are two types."""
    inner = objects({"x": primitive("string")})
    declared = declare(objects({"a": dict(inner), "b": dict(inner)}))
    assert declared is not None
    fields = declared.type.fields or {}
    assert fields["a"].type != fields["b"].type
    assert str(fields["a"].type) == "selfType.a"
