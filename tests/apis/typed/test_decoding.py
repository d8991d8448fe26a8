"""Typed kinds are decoded as strictly as upstream decodes them, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.typed.decoding import DeferredSchema
from kcp_py.schema.models import validation_schema

CUSTOM_RESOURCE_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
CONFIG_MAP = DeferredSchema(validation_schema, "io.k8s.api.core.v1.ConfigMap", typed=True)


def config_map(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **members}


def decode(schema: DeferredSchema, obj: dict[str, Any]) -> None:
    schema.type_error(obj)
    schema.default(obj)


def test_nulls_are_zero_values():
    """A null is as good as a missing field, also in metadata; inside of maps it is the zero value."""
    obj = config_map(data={"a": "b", "c": None}, binaryData=None, immutable=None)
    obj["metadata"]["creationTimestamp"] = None
    decode(CONFIG_MAP, obj)
    assert obj == config_map(data={"a": "b", "c": ""})


@pytest.mark.parametrize(("data", "given", "field", "wanted"), [
    ({"a": 1}, "number", "data", "string"),
    ({"a": True}, "bool", "data", "string"),
    ({"a": {}}, "object", "data", "string"),
    ("x", "string", "data", "map[string]string"),
    ([], "array", "data", "map[string]string"),
])  # fmt: skip
def test_wrong_types_are_refused_before_any_rule(data, given, field, wanted):
    """The refusal is a 400 in the words of upstream's decoder."""
    with pytest.raises(StatusError) as raised:
        decode(CONFIG_MAP, config_map(data=data))
    assert raised.value.code == 400
    assert raised.value.message == (
        f'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal {given} '
        f"into Go struct field ConfigMap.{field} of type {wanted}"
    )


def test_unknown_fields_are_named():
    """Fields that the kind does not have are dropped and named."""
    obj = config_map(odd=1, data={"any": "key"})
    assert CONFIG_MAP.prune(obj) == ["odd"]
    assert obj == config_map(data={"any": "key"})


def test_nothing_is_compiled_before_it_is_needed():
    """Making the schema costs nothing; its first use compiles it, once."""
    calls: list[str] = []

    def source(name: str) -> Any:
        calls.append(name)
        return validation_schema(name)

    schema = DeferredSchema(source, "io.k8s.api.core.v1.Secret", typed=True)
    assert calls == []
    schema.prune({"metadata": {}})
    schema.validate({"metadata": {}})
    assert calls == ["io.k8s.api.core.v1.Secret"]


@pytest.mark.parametrize(("member", "value", "kept"), [
    ("items", {"type": "string", "odd": 1}, {"type": "string"}),
    ("additionalProperties", {"odd": 1, "not": {"odd": 1}}, {"not": {}}),
    ("additionalProperties", False, False),
    ("items", [{"odd": 1}], [{}]),
    ("dependencies", {"a": ["b"], "c": {"odd": 1}}, {"a": ["b"], "c": {}}),
])  # fmt: skip
def test_unions_with_schemas_are_pruned_as_schemas(member, value, kept):
    """Unknown members are dropped silently, as Go decodes the unions separately; a value that is not a schema stays."""
    schema = DeferredSchema(validation_schema, CUSTOM_RESOURCE_DEFINITION, typed=True)
    inner: dict[str, Any] = {member: value}
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": inner}}]}}
    assert schema.prune(obj) == []
    schema.default(obj)
    assert inner == {member: kept}


def test_definitions_keep_free_form_values():
    """Defaults, enums and examples in the schemas of a CRD are kept as they are; unknown members of a schema are not."""
    schema = DeferredSchema(validation_schema, CUSTOM_RESOURCE_DEFINITION, typed=True)
    inner = {"properties": {"a": {"default": {"x": [1]}, "enum": [None, {"y": 2}], "additionalProperties": True, "odd": 1}}}
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": inner}}]}}
    assert schema.prune(obj) == ["spec.versions[0].schema.openAPIV3Schema.properties.a.odd"]
    schema.default(obj)
    assert inner["properties"]["a"] == {"default": {"x": [1]}, "enum": [None, {"y": 2}], "additionalProperties": True}


@pytest.mark.parametrize(
    ("data", "problem"), [("!!", "illegal base64 data at input byte 0"), ("AA==x", "illegal base64 data at input byte 4")]
)
def test_bytes_that_are_not_base64(data, problem):
    """The refusal says where the text is at fault."""
    with pytest.raises(StatusError) as raised:
        decode(CONFIG_MAP, config_map(binaryData={"a": data}))
    assert raised.value.message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {problem}'


def test_times_that_are_none():
    """The refusal quotes the text."""
    lease = DeferredSchema(validation_schema, "io.k8s.api.coordination.v1.Lease", typed=True)
    with pytest.raises(StatusError) as raised:
        decode(lease, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}, "spec": {"renewTime": "x"}})
    assert 'parsing time "x" as "2006-01-02T15:04:05.000000Z07:00"' in raised.value.message


def test_lists_are_no_strings():
    """Not even where the string has a format, which OpenAPI's own rules let pass."""
    with pytest.raises(StatusError) as raised:
        decode(CONFIG_MAP, config_map(data={"a": [1]}))
    problem = "json: cannot unmarshal array into Go struct field ConfigMap.data of type string"
    assert raised.value.message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {problem}'
