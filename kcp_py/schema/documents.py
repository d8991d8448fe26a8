"""The visitor of schema documents as clients write them: each schema below another one, by keyword.

For code that needs the document itself: the rules of CRDs (`schema.crd`), which name places in it, and published models (`schema.publish`),
which are documents again. Everything else works on the tree of `structural.nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeGuard

__all__ = ["JUNCTORS", "VALUE_PARTS", "Part", "Schema", "child_schema", "map_parts", "parts_of", "walk_schema"]

Schema = Mapping[str, Any]

JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
VALUE_PARTS: Final = ("properties", "items", "additionalProperties")
"""The keywords with schemas for the parts of a value."""

_NAMED: Final = frozenset({"properties", "patternProperties", "definitions", "dependencies"})
"""The keywords with one schema for each name."""
_HOLDERS: Final = _NAMED | {*JUNCTORS, "not", "items", "additionalProperties", "additionalItems"}


class Part(NamedTuple):
    """A schema directly below another one."""

    keyword: str
    key: str | int | None
    """The name or index below the keyword; None where the keyword holds a single schema."""
    schema: Schema

    @property
    def step(self) -> str:
        """The place as errors print it: `items`, `properties[spec]`, `allOf[0]`."""
        return self.keyword if self.key is None else f"{self.keyword}[{self.key}]"


def parts_of(schema: Schema, keywords: Iterable[str]) -> Iterator[Part]:
    """The schemas below some keywords of a schema, in the order of the keywords. Values that are not schemas are skipped."""
    for keyword in keywords:
        value = schema.get(keyword)
        if _is_schema(value):
            if keyword not in _NAMED:
                yield Part(keyword, None, value)
                continue
            for name, part in value.items():
                if _is_schema(part):
                    yield Part(keyword, name, part)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                if _is_schema(part):
                    yield Part(keyword, index, part)


def child_schema(schema: Schema, keyword: str) -> Schema | None:
    """The schema under a keyword that may also hold something else, such as `additionalProperties: true`."""
    child = schema.get(keyword)
    return child if _is_schema(child) else None


def walk_schema(schema: Schema) -> list[Schema]:
    """Every schema of a document, without recursion."""
    found: list[Schema] = []
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if type(node) is not dict and not isinstance(node, Mapping):
            continue
        found.append(node)
        for name, value in node.items():
            if name in _HOLDERS and value:
                if name in _NAMED:
                    pending.extend(value.values())
                elif type(value) is list:
                    pending.extend(value)
                else:
                    pending.append(value)
    return found


def map_parts(schema: Schema, transform: Callable[[Schema], Schema]) -> dict[str, Any]:
    """A copy of a schema with `transform` applied to the schemas for the parts of its value.

    Properties that are not schemas are left out, for CRDs can hold such.
    """
    result = dict(schema)
    if "properties" in schema:
        properties = schema["properties"] if _is_schema(schema["properties"]) else {}
        result["properties"] = {name: transform(part) for name, part in properties.items() if _is_schema(part)}
    for keyword in ("items", "additionalProperties"):
        if _is_schema(child := schema.get(keyword)):
            result[keyword] = transform(child)
    return result


def _is_schema(value: Any) -> TypeGuard[Schema]:
    # The first test is much faster, and true for decoded documents.
    return type(value) is dict or isinstance(value, Mapping)
