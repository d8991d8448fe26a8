"""The JSONPath dialect of printer columns: one expression, such as `.status.conditions[?(@.type=="Ready")].status`.

Source: k8s.io/client-go `util/jsonpath` (parser.go, jsonpath.go) with missing keys allowed. Columns need one expression, so templates,
`range` and `end` are not spoken. Where upstream's evaluation ends with an error, a column is empty; so is the result here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kcp_py.schema.jsonpath.steps import (
    OPERATORS,
    NoMatchError,
    Step,
    compare_filter,
    constant,
    exists_filter,
    field_step,
    recurse,
    slice_step,
    union,
    wildcard,
)

Path = Callable[[Any], list[Any]]
"""Finds the values of an expression in an object, in document order; nothing where the path does not lead anywhere."""

_MAX_LENGTH: Final = 4096
_MAX_STEPS: Final = 64


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile an expression; braces around it may be left out.

    Raises:
        ValueError: the text is not an expression, worded as upstream words it.
    """
    parser, steps = _parsed(text)
    names = parser.fields
    if names is not None:
        return _field_path(names)

    def find(value: Any) -> list[Any]:
        found = [value]
        try:
            for step in steps:
                found = step(found)
        except NoMatchError:
            return []
        return found

    return find


class Beginning(NamedTuple):
    """How an expression begins."""

    names: tuple[str, ...]
    """The names in front of the first other step: only what they lead to is looked at."""
    complete: bool
    """Whether the expression has nothing but these names, at least one."""


def beginning_of(text: str) -> Beginning:
    """The beginning of an expression that `compile_path` takes."""
    parser, _ = _parsed(text)
    return Beginning(tuple(parser.leading), parser.fields is not None)


def _parsed(text: str) -> tuple[_Parser, tuple[Step, ...]]:
    if len(text) > _MAX_LENGTH:
        raise ValueError("expression is too long")
    parser = _Parser(text[1:-1] if text.startswith("{") and text.endswith("}") else text)
    return parser, tuple(parser.parse())


def _field_path(names: tuple[str, ...]) -> Path:
    """The ordinary case: names only."""

    def find(value: Any) -> list[Any]:
        for name in names:
            if type(value) is not dict or name not in value:
                return []
            value = value[name]
        return [value]

    return find


_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_DICT_KEY: Final = re.compile(r"'([^']*)'")
_FILTER: Final = re.compile(r"([^!<>=]+)([!<>=~]+)(.+)", re.DOTALL)


class _Parser:
    """A recursive descent over one expression, as upstream's but without recursion between steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._steps: list[Step] = []
        self._names: list[str] | None = []
        self.leading: list[str] = []
        """The names in front of the first other step."""

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The names, if the expression has nothing else."""
        return tuple(self._names) if self._names else None

    def parse(self, *, nested: bool = False) -> list[Step]:
        recursive = False
        while self._at < len(self._text):
            if len(self._steps) > _MAX_STEPS:
                raise ValueError("expression is too long")
            rest = self._text[self._at :]
            if rest.startswith("[?("):
                self._add(self._filter())
            elif rest.startswith(".."):
                if recursive:
                    raise ValueError("invalid multiple recursive descent")
                self._at += 2
                self._add(recurse)
                recursive = True
                if self._at < len(self._text) and (self._text[self._at].isalnum() or self._text[self._at] == "_"):
                    self._field()
                    recursive = False
                continue
            elif (character := rest[0]) in "\r\n":
                raise ValueError("unclosed action")
            elif character in " @$":
                self._at += 1
                continue
            elif character == "[":
                self._array()
            elif character in "\"'":
                self._add(constant(self._quote(character)))
            elif character == ".":
                self._at += 1
                self._field()
            elif character in "+-" or character.isdigit():
                self._add(constant(self._number()))
            elif character.isalpha() or character == "_":
                self._identifier(nested=nested)
            else:
                raise ValueError(f"unrecognized character in action: U+{ord(character):04X} '{character}'")
            recursive = False
        return self._steps

    def _add(self, step: Step) -> None:
        self._names = None
        self._steps.append(step)

    def _add_field(self, name: str) -> None:
        if self._names is not None:
            self._names.append(name)
            self.leading.append(name)
        self._steps.append(field_step(name))

    def _field(self) -> None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _TERMINATORS:
            self._at += 2 if self._text[self._at] == "\\" else 1
        name = self._text[start : self._at]
        if name == "*":
            self._add(wildcard)
        elif name:
            self._add_field(name.replace("\\", ""))
        elif self._at >= len(self._text) and start == len(self._text):
            # `.` alone is the object itself; upstream reads it as a field without a name, which nothing has.
            self._add_field("")

    def _identifier(self, *, nested: bool) -> None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _TERMINATORS:
            self._at += 1
        name = self._text[start : self._at]
        if name not in {"true", "false"}:
            raise ValueError(f"unrecognized identifier {name}")
        if not nested:
            self._names = None
        self._add(constant(name == "true"))

    def _number(self) -> float:
        start = self._at
        self._at += self._text[self._at] in "+-"
        while self._at < len(self._text) and (self._text[self._at] == "." or self._text[self._at].isdigit()):
            self._at += 1
        text = self._text[start : self._at]
        try:
            return int(text) if "." not in text else float(text)
        except ValueError:
            raise ValueError(f"cannot parse number {text}") from None

    def _quote(self, quote: str) -> str:
        start = self._at + 1
        end = start
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise ValueError("unterminated quoted string")
        self._at = end + 1
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), self._text[start:end])

    def _array(self) -> None:
        end = self._text.find("]", self._at)
        if end < 0 or "\n" in self._text[self._at : end]:
            raise ValueError("unterminated array")
        inside = self._text[self._at + 1 : end]
        self._at = end + 1
        if "," in inside:
            branches = [tuple(_Parser(f"[{part.strip(' ')}]").parse()) for part in inside.split(",")]
            self._add(union(branches))
        elif (key := _DICT_KEY.fullmatch(inside)) is not None:
            self._keys(key[1])
        else:
            self._add(slice_step(inside))

    def _keys(self, text: str) -> None:
        # Upstream reads a quoted text as a path again: dots in a key have to be escaped here too.
        inner = _Parser(f".{text}")
        inner.parse()
        if inner.fields is None:
            for step in inner._steps:
                self._add(step)
            return
        for name in inner.fields:
            self._add_field(name)

    def _filter(self) -> Step:
        start = self._at + 3
        end, quote = start, ""
        while True:
            if end >= len(self._text) or self._text[end] == "\n":
                raise ValueError("unterminated filter")
            character = self._text[end]
            if character in "\"'":
                if not quote:
                    quote = character
                elif quote == character and self._text[end - 1] != "\\":
                    quote = ""
            elif character == ")" and not quote:
                break
            end += 1
        if self._text[end + 1 : end + 2] != "]":
            raise ValueError("unclosed array expect ]")
        text = self._text[start:end]
        self._at = end + 2
        parts = _FILTER.fullmatch(text)
        if parts is None:
            return exists_filter(tuple(_Parser(text).parse(nested=True)))
        left, right = (tuple(_Parser(part).parse(nested=True)) for part in (parts[1], parts[3]))
        if parts[2] not in OPERATORS:
            raise ValueError(f"unrecognized filter operator {parts[2]}")
        return compare_filter(left, OPERATORS[parts[2]], right)


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
