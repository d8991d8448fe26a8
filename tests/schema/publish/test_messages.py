"""Parts of OpenAPI documents in protobuf: the fields of gnostic's messages. The e2e tests read whole documents with gnostic itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.schema.publish.messages import model_message, path_message
from tests.schema.publish.wire import named, only, read


def schema(version: int, value: Any) -> dict[int, list[Any]]:
    """The fields of a model."""
    element = model_message(version, "m", value)
    assert only(element, 1, 1) == b"m"
    return read(only(element, 1, 2) if version == 2 else only(element, 1, 2, 1))


def test_scalars_of_a_schema() -> None:
    """Texts, numbers and booleans; zero values are not written."""
    value = {"description": "d", "maximum": 1.5, "maxLength": 7.0, "minLength": 0, "uniqueItems": True, "readOnly": False, "title": ""}
    assert schema(2, value) == {4: [b"d"], 7: [1.5], 11: [7], 16: [1]}
    assert schema(3, value) == {34: [b"d"], 11: [1.5], 15: [7], 20: [1]}


def test_values_of_any_type_are_yaml() -> None:
    """Enums, defaults and extensions are carried as text, in which no character is one that YAML does not take."""
    value = {"enum": ["a", 1, None, "\x7f\u2028"], "default": {"a": [1]}, "x-kubernetes-preserve-unknown-fields": True}
    fields = schema(2, value)
    assert [only(item, 2) for item in fields[20]] == [b'"a"\n', b"1\n", b"null\n", b'"\\u007f\\u2028"\n']
    assert only(fields[5][0], 2) == b'{"a":[1]}\n'
    (extension,) = fields[31]
    assert (only(extension, 1), only(extension, 2, 2)) == (b"x-kubernetes-preserve-unknown-fields", b"true\n")


def test_choices_of_a_schema() -> None:
    """A boolean or a schema, a schema or a list of them, a reference or not."""
    value = {
        "type": "object",
        "properties": {
            "a": {"additionalProperties": False},
            "b": {"items": {"$ref": "#/x"}},
            "c": {"additionalProperties": {"type": "string"}},
        },
    }
    second = {name: read(message) for name, message in named(schema(2, value)[25][0]).items()}
    assert only(second["a"][21][0], 2) == 0
    assert only(second["b"][23][0], 1, 1) == b"#/x"
    assert only(second["c"][21][0], 1, 22, 1) == b"string"
    third = {name: read(only(message, 1)) for name, message in named(schema(3, value)[31][0]).items()}
    assert only(third["a"][32][0], 2) == 0
    assert only(third["b"][30][0], 1, 2, 1) == b"#/x"
    assert only(third["c"][32][0], 1, 1, 25) == b"string"


@pytest.mark.parametrize(
    ("value", "wanted"), [(True, {2: [1]}), (False, {2: [0]}), (3, {1: [3.0]}), ("x", {3: [b"x"]}), ({}, {}), ([], {})]
)
def test_defaults_of_v3(value: Any, wanted: dict[int, list[Any]]) -> None:
    """There a default is a number, a boolean or a text; of others nothing is left, as in gnostic."""
    assert read(schema(3, {"default": value})[33][0]) == wanted


def test_operations() -> None:
    """Parameters by their place, bodies, answers by their code, and the extensions that clients look for."""
    operation = {
        "operationId": "o",
        "consumes": ["application/json"],
        "parameters": [
            {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/m"}, "required": True},
            {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True},
            {"name": "name", "in": "path", "type": "string", "required": True},
        ],
        "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/m"}}},
        "x-kubernetes-action": "patch",
    }
    patch = only(path_message(2, "/p", {"patch": operation}), 2, 2, 8)
    body, query, path = read(patch)[8]
    assert (only(body, 1, 1, 2), only(body, 1, 1, 5, 1)) == (b"body", b"#/definitions/m")
    assert (only(query, 1, 2, 3, 4), only(path, 1, 2, 4, 4)) == (b"dryRun", b"name")
    assert only(named(only(patch, 9))["200"], 1, 2, 1, 1) == b"#/definitions/m"
    assert only(named(patch, 13)["x-kubernetes-action"], 2) == b'"patch"\n'


def test_operations_of_v3() -> None:
    """The body has a schema for each of its media types."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/m"}}}
    operation = {"requestBody": {"content": content, "required": True}, "responses": {"200": {"description": "OK", "content": content}}}
    post = only(
        path_message(3, "/p", {"post": operation, "parameters": [{"name": "n", "in": "query", "schema": {"type": "string"}}]}), 1, 2
    )
    assert only(named(only(post, 6, 7, 1, 2))["application/json"], 1, 2, 1) == b"#/components/schemas/m"
    assert only(named(only(post, 6, 8), 2)["200"], 1, 1) == b"OK"
    assert only(post, 13, 1, 10, 1, 25) == b"string"


WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "additionalProperties",
        "enum",
        "default",
        "allOf",
        "required",
        "maximum",
        "maxItems",
        "x-a",
        "$ref",
        "a",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=25,
)


@given(JSON, st.sampled_from([2, 3]))
def test_whatever_a_schema_holds_can_be_written(value: Any, version: int) -> None:
    """Definitions are tenants': none of them breaks the document."""
    assert only(model_message(version, "m", value), 1, 1) == b"m"


def test_wide_schemas_take_linear_time() -> None:
    """Twice as many properties are twice as many bytes, and are not copied for each other."""
    wide: dict[str, Any] = {"properties": {f"f{number}": {} for number in range(50_000)}}
    assert len(named(schema(2, wide)[25][0])) == 50_000
