"""The built-in kinds and the definitions of their types, read from `kinds.json` and `definitions/*.json`.

Both are written by `hack/update_builtin_kinds.py`; `core.kcp.io.v1alpha1.json` is written by hand. The generated files carry no
descriptions: see `descriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

REFERENCE_PREFIX: Final = "#/components/schemas/"
"""What precedes the name of a definition in a `$ref`, as in OpenAPI v3 documents."""

_FOLDER: Final = Path(__file__).parent


class BuiltinKind(NamedTuple):
    """One built-in kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: Sequence[str]
    categories: Sequence[str]
    verbs: Sequence[str]
    """Sorted, as in discovery."""
    subresources: Mapping[str, Sequence[str]]
    """Name -> verbs, sorted."""
    definition: str
    """The name of its type in `definitions()`; the list's has `List` appended."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.kind + "List"


@cache
def builtin_kinds() -> tuple[BuiltinKind, ...]:
    """Every built-in kind, in the order of the file."""
    return tuple(BuiltinKind(**row) for row in orjson.loads((_FOLDER / "kinds.json").read_bytes()))


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Name -> schema in the form of OpenAPI v3, of all built-in kinds, their lists and the meta kinds. Shared: do not change it."""
    merged: dict[str, Mapping[str, Any]] = {}
    for file in sorted((_FOLDER / "definitions").glob("*.json")):
        merged.update(orjson.loads(file.read_bytes()))
    return merged


_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ANY: Final = {"x-kubernetes-preserve-unknown-fields": True}

_DECODED_AS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Free-form values: upstream decodes them into raw JSON, its OpenAPI says nothing of them.
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", **_ANY},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", **_ANY},
    _APIEXTENSIONS + "JSON": _ANY,
    # Published as `oneOf`, which costs two tries and words a mistake badly.
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
_JSON_SCHEMA: Final = _APIEXTENSIONS + "JSONSchemaProps"
_SCHEMA_OR_ELSE: Final[Mapping[str, Mapping[str, Any]]] = {
    # A schema without a type: pruned like one where it is one, left alone where it is something else. Go decodes it apart.
    _JSON_SCHEMA + "OrArray": {"items": {"$ref": REFERENCE_PREFIX + _JSON_SCHEMA}, "x-lenient": True},
    _JSON_SCHEMA + "OrBool": {"x-lenient": True},
    _JSON_SCHEMA + "OrStringArray": {"items": {}, "x-lenient": True},
}
_NOT_DECODED: Final = frozenset({"format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"})
"""Keywords that say something to clients, and nothing to the decoder of a typed kind."""
_RECURSIVE: Final = frozenset({_JSON_SCHEMA, *_SCHEMA_OR_ELSE})


class ValidationSchema(NamedTuple):
    """A definition as a decoder applies it."""

    document: Mapping[str, Any]
    definitions: Mapping[str, Mapping[str, Any]]
    """Of the references that are left, which are the recursive ones."""


@cache
def validation_schema(name: str) -> ValidationSchema:
    """A definition as a decoder applies it: without what built-in strategies check, with what is not published, references resolved.

    A missing field of a compiled-in kind is its zero value; it is the strategy that says what is required, and the codec
    that checks formats. So `required` and `format` are dropped, except for the kinds whose rules are their schema (`io.kcp.`).
    """
    left: dict[str, Mapping[str, Any]] = {}
    document = _resolved(definitions()[name], left, keep_required=name.startswith("io.kcp."))
    return ValidationSchema(document, left)


def _resolved(schema: Mapping[str, Any], left: dict[str, Mapping[str, Any]], *, keep_required: bool) -> Mapping[str, Any]:
    if (reference := schema.get("$ref")) is not None:
        name = reference.removeprefix(REFERENCE_PREFIX)
        if name in _RECURSIVE:
            if name not in left:
                left[name] = {}  # stands for it while its own content is resolved
                resolved = _resolved(definitions()[_JSON_SCHEMA], left, keep_required=False)
                if name != _JSON_SCHEMA:
                    untyped = {key: value for key, value in resolved.items() if key != "type"}
                    resolved = {**untyped, **_SCHEMA_OR_ELSE[name]}
                left[name] = resolved
            return schema
        return _DECODED_AS.get(name) or _resolved(definitions()[name], left, keep_required=False)
    result = {key: value for key, value in schema.items() if key not in _NOT_DECODED or keep_required}
    if "properties" in result:
        properties = result["properties"].items()
        result["properties"] = {field: _resolved(child, left, keep_required=keep_required) for field, child in properties}
    for key in ("items", "additionalProperties"):
        if isinstance(child := result.get(key), dict):
            result[key] = _resolved(child, left, keep_required=keep_required)
    return result
