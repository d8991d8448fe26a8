"""Models of custom kinds in both versions of OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.bootstrap.kinds import REFERENCE_PREFIX
from kcp_py.schema.publish.kinds import PublishedKind, model_name
from kcp_py.schema.publish.schemas import full_schema, list_schema, reduced_schema

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def shirt(document: dict[str, Any], **changes: Any) -> PublishedKind:
    kind = PublishedKind(
        group="tests.example.com",
        version="v1",
        kind="Shirt",
        list_kind="ShirtList",
        plural="shirts",
        namespaced=True,
        verbs=("get", "list"),
        patch_types=("application/merge-patch+json",),
        document=document,
    )
    return kind._replace(**changes)


def spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def test_names():
    """A model is named after its group backwards; the core group's are where clients look for them."""
    assert shirt({}).model == "com.example.tests.v1.Shirt"
    assert shirt({}).list_model == "com.example.tests.v1.ShirtList"
    assert model_name("", "v1", "Pod") == "io.k8s.api.core.v1.Pod"


@pytest.mark.parametrize(("group", "tag", "infix"), [
    ("", "core_v1", "CoreV1"),
    ("rbac.authorization.k8s.io", "rbacAuthorization_v1", "RbacAuthorizationV1"),
    ("cert-manager.io", "certManagerIo_v1", "CertManagerIoV1"),
])  # fmt: skip
def test_operation_words(group, tag, infix):
    """Tags and operation ids are made of the words of the group as upstream makes them."""
    kind = shirt({}, group=group)
    assert (kind.tag, kind.operation_infix) == (tag, infix)


def test_root():
    """The root has what every object has, and says which kind it is."""
    schema = full_schema(shirt({"type": "object", "description": "A shirt.", "properties": {"spec": {"type": "object"}}}))
    assert schema["description"] == "A shirt."
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert schema["properties"]["metadata"]["allOf"] == [{"$ref": REFERENCE_PREFIX + OBJECT_META}]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "tests.example.com", "version": "v1", "kind": "Shirt"}]
    reduced = reduced_schema(shirt({"type": "object"}))
    assert reduced["properties"]["metadata"]["$ref"] == f"#/definitions/{OBJECT_META}"


def test_definition_itself_is_not_changed():
    """Publication works on copies: the document is shared."""
    document = spec({"type": "object", "x-kubernetes-embedded-resource": True, "nullable": True})
    before = repr(document)
    full_schema(shirt(document))
    reduced_schema(shirt(document))
    assert repr(document) == before


@pytest.mark.parametrize(("schema", "v3", "v2"), [
    (
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-int-or-string": True},
    ),
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "a"},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "a"},
        {"x-kubernetes-int-or-string": True, "pattern": "a"},
    ),
    (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
        {"x-kubernetes-preserve-unknown-fields": True},
    ),
    ({"type": "string", "nullable": True}, {"type": "string", "nullable": True}, {}),
    (
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}},
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}},
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
    ),
    (
        {"type": "array", "items": {"type": "object", "oneOf": [{"required": ["a"]}], "not": {}}},
        {"type": "array", "items": {"type": "object", "oneOf": [{"required": ["a"]}], "not": {}}},
        {"type": "array", "items": {"type": "object"}},
    ),
    (
        {"type": "object", "additionalProperties": {"type": "string", "nullable": True, "default": "x"}},
        {"type": "object", "additionalProperties": {"type": "string", "nullable": True, "default": "x"}},
        {"type": "object", "additionalProperties": {}},
    ),
], ids=["int-or-string", "int-or-string in full", "preserve", "nullable", "required nullable", "junctors", "map"])  # fmt: skip
def test_reduction(schema, v3, v2):
    """v3 says everything, shorthands in full; v2 leaves out what kubectl would misunderstand."""
    assert full_schema(shirt(spec(schema)))["properties"]["spec"] == v3
    assert reduced_schema(shirt(spec(schema)))["properties"]["spec"] == v2


@pytest.mark.parametrize("publish", [full_schema, reduced_schema])
def test_embedded_resources_are_objects(publish):
    """An embedded object has apiVersion, kind and metadata independent of its schema, and requires apiVersion and kind."""
    schema = {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"], "properties": {"kind": {"enum": ["A"]}}}
    published = publish(shirt(spec(schema)))["properties"]["spec"]
    assert set(published["properties"]) == {"apiVersion", "kind", "metadata"}
    assert published["required"] == ["kind", "apiVersion"]
    assert published["properties"]["kind"]["type"] == "string"
    assert published["properties"]["kind"]["description"].startswith("kind is a string value representing the type of this object.")


def test_embedded_resources_that_preserve_everything():
    """To v2 they have no fields at all, so that kubectl accepts any."""
    schema = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert reduced_schema(shirt(spec(schema)))["properties"]["spec"] == schema
    assert set(full_schema(shirt(spec(schema)))["properties"]["spec"]["properties"]) == {"apiVersion", "kind", "metadata"}


def test_root_that_preserves_everything():
    """A kind of which anything is accepted is an object without fields to v2, so that kubectl accepts anything too."""
    schema = {
        "type": "object",
        "description": "d",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"spec": {"type": "object"}},
    }
    published = reduced_schema(shirt(schema))
    assert published.keys() == {"type", "description", "x-kubernetes-group-version-kind"}
    assert reduced_schema(shirt({}))["type"] == "object"
    assert full_schema(shirt({}))["x-kubernetes-preserve-unknown-fields"] is True


def test_list():
    """A list has items of the kind."""
    schema = list_schema(shirt({}), REFERENCE_PREFIX)
    assert schema["required"] == ["items"]
    assert schema["properties"]["items"]["items"] == {"$ref": REFERENCE_PREFIX + "com.example.tests.v1.Shirt"}
    assert schema["x-kubernetes-group-version-kind"][0]["kind"] == "ShirtList"


@pytest.mark.parametrize("junk", [1, "x", [], [1], None, {"a": 1}], ids=repr)
def test_junk_in_unchecked_corners(junk):
    """Values that are not schemas, where definitions are not checked in depth, do not break publication."""
    for key in ("properties", "items", "additionalProperties"):
        document = spec({"type": "object", key: junk})
        full_schema(shirt(document))
        reduced_schema(shirt(document))
