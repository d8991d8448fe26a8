"""Paths into a schema, as selectable fields and CEL rules name them: `.spec.color`, `.spec['a.b']`.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go` (`ValidFieldPath`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kcp_py.schema.structural.nodes import Node

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """A path that is malformed or that the schema does not have."""


class FieldPath(NamedTuple):
    """A valid path."""

    steps: tuple[str, ...]
    """The names, outermost first."""
    node: Node
    """The schema of the field."""
    text: str
    """The place as error messages print it: `spec.labels[key]`."""


def find_field(text: str, node: Node, *, array_notation: bool = True) -> FieldPath:
    """Follow a path through a schema.

    Raises:
        FieldPathError: with upstream's text, such as `does not refer to a valid field`.
    """
    steps: list[str] = []
    shown = ""
    for name in _steps(text, array_notation=array_notation):
        properties = node.properties
        shown += f".{name}" if properties else f"[{name}]"
        child = properties.get(name) if properties else node.additional
        if not isinstance(child, Node):
            raise FieldPathError("does not refer to a valid field")
        node = child
        steps.append(name)
    return FieldPath(tuple(steps), node, shown.removeprefix("."))


def _steps(text: str, *, array_notation: bool) -> Iterator[str]:
    """The names of a path, one after the other."""
    tokens = iter(_TOKEN.findall(text))

    def take(expected: str = "") -> str:
        token = next(tokens, None)
        if token is None:
            raise FieldPathError("unexpected end of JSON path")
        if expected and token != expected:
            raise FieldPathError(f"expected {expected} but got {token}")
        return str(token)

    opening: str | None = take()
    while opening is not None:
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
        yield name
        opening = next(tokens, None)


def _unescape(match: re.Match[str]) -> str:
    escaped = _ESCAPED.get(match[1])
    if escaped is None:
        raise FieldPathError(f"invalid string literal: invalid escape char {match[0]}")
    return escaped
