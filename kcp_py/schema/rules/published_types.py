"""The CEL type of a kind from its published schema, for checks of expressions about its objects.

Source: k8s.io/apiserver `pkg/cel/openapi/resolver` (`PopulateRefs`) and `pkg/cel/openapi/extensions.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.cel.types import Type
from kcp_py.schema.documents import JUNCTORS, map_parts
from kcp_py.schema.rules.declared_types import Declarations
from kcp_py.schema.structural.nodes import SchemaTooDeepError, read_schema

Document = Mapping[str, Any]

_INT_OR_STRING: Final = ".intstr.IntOrString"
"""The end of the name of the only model of values of two types that expressions see."""
_RECURSION: Final[Document] = {"type": "object"}
"""Stands for a schema inside of itself."""
_UNUSED: Final = frozenset({*JUNCTORS, "default", "description", "example", "not", "title", "x-kubernetes-validations"})


class PublishedType(NamedTuple):
    """The type of a kind."""

    type: Type | None
    """None where the schema gives none; expressions may then do anything with such objects."""
    size: int
    """How many types were made for it."""


def published_type(document: Document, models: Mapping[str, Document], name: str) -> PublishedType:
    """The type of the objects of a kind.

    Args:
        document: the schema of the kind as OpenAPI v3 publishes it.
        models: what references in the document and in models stand for, by name.
        name: of the type in messages.
    """
    declarations = Declarations()
    try:
        node = read_schema(_resolved(document, models, ()))
        declared = declarations.of(node, name, resource=True)
    except (SchemaTooDeepError, RecursionError):
        return PublishedType(None, 1)
    return PublishedType(None if declared is None else declared.type, len(declarations))


def _resolved(schema: Document, models: Mapping[str, Document], within: tuple[str, ...]) -> Document:
    """A schema without references and without all that does not matter for types."""
    if name := _reference(schema):
        if name in within:
            return _RECURSION
        if name.endswith(_INT_OR_STRING):
            return {"x-kubernetes-int-or-string": True}
        found = models.get(name)
        return {} if found is None else _resolved_parts(found, models, (*within, name))
    return _resolved_parts(schema, models, within)


def _resolved_parts(schema: Document, models: Mapping[str, Document], within: tuple[str, ...]) -> Document:
    kept = {key: value for key, value in schema.items() if key not in _UNUSED}
    return map_parts(kept, lambda part: _resolved(part, models, within))


def _reference(schema: Document) -> str:
    """The model that stands for a schema; published documents wrap a reference to describe it."""
    if (target := schema.get("$ref")) is not None:
        return str(target).rpartition("/")[2]
    return next((found for part in schema.get("allOf") or () if (found := _reference(part))), "")
