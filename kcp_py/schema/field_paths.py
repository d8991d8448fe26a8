"""Paths into a schema, as selectable fields and CEL rules name them: `.spec.color`, `.spec['a.b']`.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`ValidFieldPath`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)


_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """A path that is malformed or that the schema does not have."""


class FieldPath(NamedTuple):
    """A valid path."""

    steps: tuple[str, ...]
    """The names, outermost first."""
    schema: Mapping[str, Any]
    """The schema of what it points to."""
    text: str
    """As error messages name the place: `spec.labels[key]`."""


def find_field(text: str, schema: Mapping[str, Any], *, array_notation: bool = True) -> FieldPath:
    """Follow a path through a schema.

    Raises:
        FieldPathError: with upstream's text, such as `does not refer to a valid field`.
    """
    tokens = _TOKEN.findall(text)
    steps: list[str] = []
    shown = ""
    position = 0

    def take(expected: str = "") -> str:
        nonlocal position
        if position >= len(tokens):
            raise FieldPathError("unexpected end of JSON path")
        position += 1
        if expected and tokens[position - 1] != expected:
            raise FieldPathError(f"expected {expected} but got {tokens[position - 1]}")
        return str(tokens[position - 1])

    if not tokens:
        raise FieldPathError("unexpected end of JSON path")
    while position < len(tokens):
        opening = take()
        if opening == "[":
            if not array_notation:
                raise FieldPathError("array notation is not allowed")
            name = take()
            if len(name) < 2 or name[0] != "'" or name[-1] != "'":
                raise FieldPathError(f"expected single quoted string but got {name}")
            name = _ESCAPE.sub(_unescape, name[1:-1])
            take("]")
        elif opening == ".":
            name = take()
        else:
            raise FieldPathError(f"expected [ or . but got: {opening}")
        shown += f".{name}" if schema.get("properties") else f"[{name}]"
        schema = _child(schema, name)
        steps.append(name)
    return FieldPath(tuple(steps), schema, shown.removeprefix("."))


def _unescape(match: re.Match[str]) -> str:
    escaped = _ESCAPED.get(match[1])
    if escaped is None:
        raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
    return escaped


def _child(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if properties := schema.get("properties"):
        if name not in properties:
            raise FieldPathError("does not refer to a valid field")
        child = properties[name]
    elif isinstance(schema.get("additionalProperties"), Mapping):
        child = schema["additionalProperties"]
    else:
        raise FieldPathError("does not refer to a valid field")
    return child if isinstance(child, Mapping) else {}
