"""Types of kinds from published schemas."""

from __future__ import annotations

from typing import Any

from kcp_py.schema.rules.published_types import published_type

META = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
BOX: dict[str, Any] = {
    "type": "object",
    "properties": {
        "inner": {"allOf": [{"$ref": "#/components/schemas/Box"}], "description": "Described."},
        "port": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
        "amount": {"$ref": "#/components/schemas/Quantity"},
        "lost": {"$ref": "#/components/schemas/Nope"},
        "metadata": {"$ref": "#/components/schemas/Meta"},
    },
}
MODELS: dict[str, dict[str, Any]] = {
    "Box": BOX,
    "Meta": META,
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
}


def fields_of(kind: Any) -> dict[str, str]:
    return {name: str(field.type) for name, field in kind.fields.items()}


def test_references_are_followed_once() -> None:
    """A schema inside of itself is an object without fields; alternatives give no type, but for integers or strings."""
    kind, size = published_type({"$ref": "#/components/schemas/Box"}, MODELS, "Box")
    assert kind is not None
    assert fields_of(kind) == {
        "apiVersion": "string",
        "inner": "Box.inner",
        "kind": "string",
        "metadata": "Box.metadata",
        "port": "dyn",
    }
    assert kind.fields is not None
    assert fields_of(kind.fields["inner"].type) == {}
    assert size > 3


def test_schemas_that_are_too_deep() -> None:
    """They have no type."""
    document: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        document = {"type": "object", "properties": {"a": document}}
    assert published_type(document, {}, "Deep").type is None
