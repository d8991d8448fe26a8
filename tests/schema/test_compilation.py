"""Pruning, defaulting and validating whole objects by a compiled schema."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.schema.compilation import SchemaTooDeepError, StructuralSchema, compile_schema


def spec(**properties: Any) -> StructuralSchema:
    return compile_schema({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})


def messages(schema: StructuralSchema, value: Any) -> list[str]:
    return [str(error) for error in schema.validate({"spec": value})]


CASES: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
    "type": (
        {"type": "integer"},
        "string",
        ['spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"'],
    ),
    "null": (
        {"type": "string"},
        None,
        ['spec.a: Invalid value: "null": spec.a in body must be of type string: "null"'],
    ),
    "nullable": ({"type": "string", "nullable": True}, None, []),
    "integral float is an integer": ({"type": "integer"}, 1.0, []),
    "fraction is no integer": (
        {"type": "integer"},
        1.5,
        [
            'spec.a: Invalid value: "number": spec.a in body must be of type integer: "number"',
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.a',
        ],
    ),
    "int32": (
        {"type": "integer", "format": "int32"},
        2**31,
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.a'],
    ),
    "int64": ({"type": "integer", "format": "int64"}, -(2**63), []),
    "integer is a number": ({"type": "number"}, 3, []),
    "boolean is no integer": (
        {"type": "integer"},
        True,
        ['spec.a: Invalid value: "boolean": spec.a in body must be of type integer: "boolean"'],
    ),
    "enum": ({"type": "string", "enum": ["foo", "bar"]}, "qux", ['spec.a: Unsupported value: "qux": supported values: "foo", "bar"']),
    "enum of numbers": ({"type": "integer", "enum": [1, 2]}, 3, ['spec.a: Unsupported value: 3: supported values: "1", "2"']),
    "enum compares numbers": ({"type": "number", "enum": [1]}, 1.0, []),
    "enum tells true from 1": (
        {"x-kubernetes-preserve-unknown-fields": True, "enum": [1]},
        True,
        ['spec.a: Unsupported value: true: supported values: "1"'],
    ),
    "pattern": (
        {"type": "string", "pattern": "^[a-zA-Z0-9_]*$"},
        "foo!",
        ["spec.a: Invalid value: \"foo!\": spec.a in body should match '^[a-zA-Z0-9_]*$'"],
    ),
    "pattern is searched": ({"type": "string", "pattern": "b"}, "abc", []),
    "minimum": (
        {"type": "number", "minimum": 10},
        5,
        ["spec.a: Invalid value: 5: spec.a in body should be greater than or equal to 10"],
    ),
    "exclusive maximum": (
        {"type": "integer", "maximum": 10, "exclusiveMaximum": True},
        10,
        ["spec.a: Invalid value: 10: spec.a in body should be less than 10"],
    ),
    "multiple": (
        {"type": "integer", "multipleOf": 3},
        4,
        ["spec.a: Invalid value: 4: spec.a in body should be a multiple of 3"],
    ),
    "multiple of a fraction": ({"type": "number", "multipleOf": 0.1}, 0.3, []),
    "too long": ({"type": "string", "maxLength": 2}, "abc", ["spec.a: Too long: may not be more than 2 bytes"]),
    "length counts characters": ({"type": "string", "maxLength": 2}, "üü", []),
    "too short": (
        {"type": "string", "minLength": 2},
        "a",
        ['spec.a: Invalid value: "a": spec.a in body should be at least 2 chars long'],
    ),
    "too many items": (
        {"type": "array", "maxItems": 2, "items": {"type": "integer"}},
        [1, 2, 3],
        ["spec.a: Too many: 3: must have at most 2 items"],
    ),
    "too few items": (
        {"type": "array", "minItems": 1, "items": {"type": "integer"}},
        [],
        ["spec.a: Invalid value: 0: spec.a in body should have at least 1 items"],
    ),
    "too many properties": (
        {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
        {"x": 1, "y": 2},
        ["spec.a: Too many: 2: must have at most 1 item"],
    ),
    "map value": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"x": "1"},
        ['spec.a.x: Invalid value: "string": spec.a.x in body must be of type integer: "string"'],
    ),
    "required": ({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}, {}, ["spec.a.b: Required value"]),
    "list item": (
        {"type": "array", "items": {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}},
        [{"b": ""}, {}],
        ["spec.a[1].b: Required value"],
    ),
    "int-or-string": ({"x-kubernetes-int-or-string": True}, "50%", []),
    "not int-or-string": (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        True,
        [
            'spec.a: Invalid value: "boolean": spec.a in body must be of type integer,string: "boolean"',
            '<nil>: Invalid value: "": "spec.a" must validate at least one schema (anyOf)',
            'spec.a: Invalid value: "boolean": spec.a in body must be of type integer: "boolean"',
        ],
    ),
    "one of": (
        {
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
        },
        {"x": "", "y": ""},
        ['<nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
    ),
    "none of one": (
        {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
        {},
        ['<nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). Found none valid', "spec.a.x: Required value"],
    ),
    "all of": (
        {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 9}]},
        "a",
        [
            'spec.a: Invalid value: "a": spec.a in body should be at least 2 chars long',
            '<nil>: Invalid value: "": "spec.a" must validate all the schemas (allOf)',
        ],
    ),
    "not": (
        {"type": "string", "not": {"enum": ["a"]}},
        "a",
        ['<nil>: Invalid value: "": "spec.a" must not validate the schema (not)'],
    ),
    "format": (
        {"type": "string", "format": "date-time"},
        "yesterday",
        ['spec.a: Invalid value: "yesterday": spec.a in body must be of type date-time: "yesterday"'],
    ),
    "number for a formatted string": (
        {"type": "string", "format": "date-time"},
        5,
        ['spec.a: Invalid value: "int64": spec.a in body must be of type date-time: "int64"'],
    ),
    "unknown format": ({"type": "string", "format": "made-up"}, "x", []),
    "list map": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        },
        [{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1}],
        ['spec.a[3]: Duplicate value: {"a":1,"b":1}'],
    ),
    "set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "b", "a"],
        ['spec.a[2]: Duplicate value: "a"'],
    ),
    "int64 is kept exactly": ({"type": "integer", "maximum": 9223372036854775807}, 9223372036854775807, []),
}


@pytest.mark.parametrize("case", CASES)
def test_validate_words_errors_as_upstream(case):
    """Each rule is reported with upstream's path, kind and text."""
    schema, value, expected = CASES[case]
    assert messages(spec(a=schema), {"a": value}) == expected


def test_all_errors_are_reported_at_once():
    """One violation does not hide another."""
    schema = spec(a={"type": "integer"}, b={"type": "string", "enum": ["x"]})
    assert messages(schema, {"a": "1", "b": "y"}) == [
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        'spec.b: Unsupported value: "y": supported values: "x"',
    ]


def test_any_of_shows_the_alternative_that_matched_most():
    """The errors of the alternative with most passed checks explain a failed anyOf."""
    schema = spec(
        a={
            "type": "object",
            "properties": {name: {"type": "string"} for name in "xyz"},
            "anyOf": [
                {"required": ["z"]},
                {"properties": {"x": {"minLength": 1}, "y": {"minLength": 9}}},
            ],
        }
    )
    assert messages(schema, {"a": {"x": "1", "y": "2"}}) == [
        '<nil>: Invalid value: "": "spec.a" must validate at least one schema (anyOf)',
        'spec.a.y: Invalid value: "2": spec.a.y in body should be at least 9 chars long',
    ]


def test_root_metadata_is_only_restricted_by_name():
    """A schema may restrict metadata.name; nothing else of metadata is touched."""
    schema = compile_schema(
        {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}}
    )
    obj = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "long", "labels": None, "unknown": 1}}
    assert schema.prune(obj) == []
    schema.default(obj)
    assert obj["metadata"] == {"name": "long", "labels": None, "unknown": 1}
    assert [str(error) for error in schema.validate(obj)] == ["metadata.name: Too long: may not be more than 3 bytes"]


def test_list_types_are_not_enforced_where_the_stored_object_broke_them():
    """An update may leave a list as wrong as it was."""
    schema = spec(a={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
    wrong = {"spec": {"a": ["x", "x"]}}
    assert schema.validate(wrong, wrong) == []
    assert len(schema.validate(wrong, {"spec": {"a": ["x"]}})) == 1


def test_embedded_resources_are_checked():
    """An embedded resource needs a type and valid metadata."""
    schema = spec(a={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})
    assert messages(schema, {"a": {"metadata": {"name": ".."}, "kind": "%"}}) == [
        "spec.a.apiVersion: Required value",
        "spec.a.metadata.name: Invalid value: \"..\": may not be '..'",
        (
            'spec.a.kind: Invalid value: "%": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case '
            "alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character "
            "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ),
    ]


RECURSIVE = {
    "Props": {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "properties": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Props"}},
            "not": {"$ref": "#/components/schemas/Props"},
        },
    }
}


def test_definitions_may_be_recursive():
    """`$ref` is followed, into itself too, for all three functions."""
    schema = compile_schema(
        {"type": "object", "properties": {"root": {"$ref": "#/definitions/Props"}}}, definitions=RECURSIVE, custom=False
    )
    obj: dict[str, Any] = {"root": {"properties": {"a": {"type": 1, "x": 1}}, "not": {"not": {"type": None, "y": 2}}}}
    assert schema.prune(obj) == ["root.properties.a.x", "root.not.not.y"]
    schema.default(obj)
    assert obj == {"root": {"properties": {"a": {"type": 1}}, "not": {"not": {}}}}
    assert [error.field for error in schema.validate(obj)] == ["root.properties.a.type"]


def test_hostile_depth_is_an_error():
    """Neither a deep value under a recursive schema nor a deep schema exhausts the stack."""
    schema = compile_schema(
        {"type": "object", "properties": {"root": {"$ref": "#/definitions/Props"}}}, definitions=RECURSIVE, custom=False
    )
    value: dict[str, Any] = {}
    for _ in range(5000):
        value = {"not": value}
    assert schema.prune({"root": value}) == []
    schema.default({"root": value})
    assert [str(error) for error in schema.validate({"root": value})] == [
        '<nil>: Invalid value: "": must not be nested deeper than 256 levels'
    ]
    document: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        document = {"type": "object", "properties": {"a": document}}
    with pytest.raises(SchemaTooDeepError):
        compile_schema(document)


def test_deep_lists_without_schema_are_pruned_without_recursion():
    """`additionalProperties: true` empties the objects in however deep a list."""
    schema = spec(a={"type": "object", "additionalProperties": True})
    value: Any = {"x": 1}
    for _ in range(5000):
        value = [value]
    assert schema.prune({"spec": {"a": {"k": value}}})[0].endswith("].x")


def test_keywords_are_not_confused_with_property_names():
    """Properties called `items`, `type` or `properties` are ordinary fields, next to lists of the same content."""
    inner = {"type": "object", "properties": {"type": {"type": "string"}}}
    schema = spec(
        named={"type": "object", "properties": {"items": inner, "properties": inner, "additionalProperties": inner}},
        listed={"type": "array", "items": inner},
        mapped={"type": "object", "additionalProperties": inner},
        other={"type": "object", "properties": {"additionalProperties": inner}},
    )
    value = {"named": {"items": {"type": "x"}}, "listed": [{"type": "x"}], "mapped": {"k": {"type": "x"}}, "other": {"k": 1}}
    assert schema.prune({"spec": value}) == ["spec.other.k"]
    assert messages(schema, value) == []
    assert [error.field for error in schema.validate({"spec": {"named": {"items": {"type": 1}}, "listed": [{"type": 1}]}})] == [
        "spec.named.items.type",
        "spec.listed[0].type",
    ]


def test_values_too_deep_to_print_are_errors_not_failures():
    """Where errors would have to print a value that no serializer takes, one error says so; valid values stay valid."""
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    schema = spec(
        a={"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        b={"x-kubernetes-preserve-unknown-fields": True, "enum": [1]},
    )
    assert messages(schema, {"a": [deep, [deep]]}) == []
    assert messages(schema, {"b": deep}) == ['<nil>: Invalid value: "": must not be nested deeper than 240 levels']


def test_reports_are_bounded():
    """A million errors, or errors below very long names, are not all told."""
    schema = compile_schema({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}})
    assert len(schema.validate({"a": [1] * 100_000})) == 1001
    assert sum(len(str(error)) for error in schema.validate({"a" * 1_000_000: [1] * 10_000})) < 10_000_000
    with pytest.raises(SchemaTooDeepError):
        compile_schema({"type": "object", "properties": {"a" * 5000: {"type": "string"}}})


def told(error: FieldError | None) -> tuple[str, str, str] | None:
    """The parts of an error as a Status has them."""
    return None if error is None else (error.reason, error.field, error.text)


def test_wrong_types_of_embedded_resources_are_no_objects():
    """The first is told, whatever else is wrong; parts of no embedded resource have none."""
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "array", "items": embedded}, "b": {"type": "object"}}})
    assert told(schema.type_error({"a": [{"kind": "K"}, {"kind": 1}], "b": {"kind": 1}})) == (
        "FieldValueInvalid",
        "a[1].kind",
        "Invalid value: 1: must be a string",
    )
    assert told(schema.type_error({"a": [{"metadata": []}]})) == (
        "FieldValueInvalid",
        "a[0].metadata",
        "Invalid value: []: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
    )
    assert told(schema.type_error({"a": [{"metadata": {"labels": {"a": 1}}}]})) == (
        "FieldValueInvalid",
        "a[0].metadata",
        'Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string',
    )
    assert schema.type_error({"a": [{}], "b": {"kind": 1}}) is None


def test_limits_are_printed_as_the_number_is():
    """A double meets a double, an integer an integer."""
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "number", "maximum": 4294967295}}})
    (error,) = schema.validate({"a": 1e20})
    assert error.text == "Invalid value: 1e+20: a in body should be less than or equal to 4.294967295e+09"
    (error,) = schema.validate({"a": 4294967296})
    assert error.text == "Invalid value: 4294967296: a in body should be less than or equal to 4294967295"


def test_doubles_beside_whole_numbers():
    """The tolerance is relative to the whole number, and never makes one of nothing."""
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "integer"}}})
    reasons = {number: [error.reason for error in schema.validate({"a": number})] for number in (-1.00000000125, 1.0, 1e-12)}
    assert reasons == {
        -1.00000000125: ["FieldValueTypeInvalid", "FieldValueInvalid"],
        1.0: [],
        1e-12: ["FieldValueTypeInvalid", "FieldValueInvalid"],
    }


def test_lost_fields_of_the_root_get_their_defaults_back():
    """With the defaults below them, a copy each time; nothing else is read, and present values stay."""
    part = {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}, "default": ["x"]}}}
    schema = compile_schema({"type": "object", "properties": {"a": {**part, "default": {}}, "c": part, "d": {**part, "default": {}}}})
    objects: list[dict[str, Any]] = [{"c": {}, "d": None}, {"c": {}, "d": None}]
    for obj in objects:
        schema.restore_defaults(obj)
    objects[0]["a"]["b"].append("y")
    assert objects == [{"a": {"b": ["x", "y"]}, "c": {}, "d": None}, {"a": {"b": ["x"]}, "c": {}, "d": None}]


@pytest.mark.parametrize(
    ("limits", "first"),
    [({"minProperties": 2}, "should have at least 2 properties"), ({"maxProperties": 0}, "must have at most 0 items")],
)
def test_the_number_of_properties_hides_nothing(limits: dict[str, Any], first: str) -> None:
    """Errors of the properties themselves follow it."""
    schema = spec(a={"type": "object", "required": ["q"], "properties": {"x": {"type": "integer", "minimum": 3}, "q": {}}, **limits})
    told = messages(schema, {"a": {"x": 1}})
    assert first in told[0]
    assert told[1:] == ["spec.a.x: Invalid value: 1: spec.a.x in body should be greater than or equal to 3", "spec.a.q: Required value"]
