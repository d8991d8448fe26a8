"""The JSONPath dialect of printer columns: one expression, such as `.status.conditions[?(@.type=="Ready")].status`.

Source: k8s.io/client-go `util/jsonpath` (parser.go, jsonpath.go) with missing keys allowed. Columns need one expression, so templates,
`range` and `end` are not spoken. Where upstream's evaluation ends with an error, a column is empty; so is the result here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from kcp_py.golang.regexp import PatternError, compile_pattern

Path = Callable[[Any], list[Any]]
"""Finds the values of an expression in an object, in document order; nothing where the path does not lead anywhere."""

Step = Callable[[list[Any]], list[Any]]

_MAX_LENGTH: Final = 4096
_MAX_STEPS: Final = 64
_MAX_VALUES: Final = 10_000
"""Values that one step may yield: `..` repeated would otherwise multiply."""


class _NoMatchError(Exception):
    """Evaluation failed where upstream's fails."""


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """Compile an expression; braces around it may be left out.

    Raises:
        ValueError: the text is not an expression, worded as upstream words it.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError("expression is too long")
    expression = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    parser = _Parser(expression)
    steps = tuple(parser.parse())
    names = parser.fields
    if names is not None:
        return _field_path(names)

    def find(value: Any) -> list[Any]:
        found = [value]
        try:
            for step in steps:
                found = step(found)
        except _NoMatchError:
            return []
        return found

    return find


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
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_FILTER: Final = re.compile(r"([^!<>=]+)([!<>=~]+)(.+)", re.DOTALL)
_MAX_INDEX_DIGITS: Final = 18


class _Parser:
    """A recursive descent over one expression, as upstream's but without recursion between steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._steps: list[Step] = []
        self._names: list[str] | None = []

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
                self._add(_recurse)
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
                self._add(_constant(self._quote(character)))
            elif character == ".":
                self._at += 1
                self._field()
            elif character in "+-" or character.isdigit():
                self._add(_constant(self._number()))
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
        self._steps.append(_field_step(name))

    def _field(self) -> None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _TERMINATORS:
            self._at += 2 if self._text[self._at] == "\\" else 1
        name = self._text[start : self._at]
        if name == "*":
            self._add(_wildcard)
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
        self._add(_constant(name == "true"))

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
            self._add(_union(branches))
        elif (key := _DICT_KEY.fullmatch(inside)) is not None:
            self._keys(key[1])
        else:
            self._add(_slice_step(inside))

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
            return _exists_filter(tuple(_Parser(text).parse(nested=True)))
        left, right = (tuple(_Parser(part).parse(nested=True)) for part in (parts[1], parts[3]))
        if parts[2] not in _OPERATORS:
            raise ValueError(f"unrecognized filter operator {parts[2]}")
        return _compare_filter(left, _OPERATORS[parts[2]], right)


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _bounded(found: list[Any]) -> list[Any]:
    if len(found) > _MAX_VALUES:
        raise _NoMatchError
    return found


def _constant(value: Any) -> Step:
    return lambda found: [value] * len(found)


def _field_step(name: str) -> Step:
    return lambda found: [value[name] for value in found if type(value) is dict and name in value]


def _children(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())
    return value if type(value) is list else []


def _wildcard(found: list[Any]) -> list[Any]:
    return _bounded([child for value in found for child in _children(value)])


def _recurse(found: list[Any]) -> list[Any]:
    """Every container below, itself included, parents first."""
    result: list[Any] = []
    pending = list(reversed(found))
    while pending:
        value = pending.pop()
        if children := _children(value):
            result.append(value)
            _bounded(result)
            pending.extend(reversed(children))
    return result


def _union(branches: list[tuple[Step, ...]]) -> Step:
    return lambda found: _bounded([value for steps in branches for value in _run(steps, found)])


def _run(steps: tuple[Step, ...], found: list[Any]) -> list[Any]:
    for step in steps:
        found = step(found)
    return found


def _slice_step(text: str) -> Step:
    parts = _SLICE.fullmatch(":" if text == "*" else text)
    if parts is None or any(len(part or "") > _MAX_INDEX_DIGITS for part in parts.groups()):
        raise ValueError(f"invalid array index {text}")
    first, last, step = (None if part is None else part.removeprefix(":") for part in parts.groups())
    if any(part == "-" for part in (first, last, step)):
        raise ValueError(f"array index {first if first == '-' else '-'} is not a number")
    start = int(first or 0)
    derived = last is None
    stop = start + 1 if derived else int(last) if last else None
    stride = int(step) if step else 1

    def take(found: list[Any]) -> list[Any]:
        result: list[Any] = []
        for value in found:
            if value is None:
                continue
            if type(value) is not list:
                raise _NoMatchError
            size = len(value)
            low = start + size if start < 0 else start
            high = size if stop is None else stop
            if high < 0 or (high == 0 and derived):
                high += size
            if low == high:
                return result
            if not (0 <= low < size and 0 <= high <= size and low <= high and stride > 0):
                raise _NoMatchError
            result.extend(value[low:high:stride])
        return _bounded(result)

    return take


def _exists_filter(steps: tuple[Step, ...]) -> Step:
    def keep(element: Any) -> bool:
        try:
            return bool(_run(steps, [element]))
        except _NoMatchError:
            return False

    return _filtered(keep)


def _compare_filter(left: tuple[Step, ...], compare: Callable[[Any, Any], bool], right: tuple[Step, ...]) -> Step:
    def keep(element: Any) -> bool:
        lefts = _run(left, [element])
        if not lefts:
            return False
        rights = _run(right, [element])
        if not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise _NoMatchError
        return compare(lefts[0], rights[0])

    return _filtered(keep)


def _filtered(keep: Callable[[Any], bool]) -> Step:
    def step(found: list[Any]) -> list[Any]:
        result: list[Any] = []
        for value in found:
            if type(value) is not list:
                raise _NoMatchError
            result.extend([element for element in value if keep(element)])
        return _bounded(result)

    return step


_KINDS: Final = {bool: "bool", int: "int", float: "float", str: "string"}


def _comparable(left: Any, right: Any) -> str:
    """Go compares only basic values of the same kind."""
    kind = _KINDS.get(type(left), "")
    if not kind or kind != _KINDS.get(type(right)):
        raise _NoMatchError
    return kind


def _equal(left: Any, right: Any) -> bool:
    _comparable(left, right)
    return bool(left == right)


def _not_equal(left: Any, right: Any) -> bool:
    return not _equal(left, right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(left: Any, right: Any) -> bool:
        if _comparable(left, right) == "bool":
            raise _NoMatchError
        return compare(left, right)

    return check


def _matches(left: Any, right: Any) -> bool:
    if type(left) is not str or type(right) is not str:
        raise _NoMatchError
    try:
        return compile_pattern(right)(left)
    except PatternError:
        raise _NoMatchError from None


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": _not_equal,
    "<": _ordered(operator.lt),
    ">": _ordered(operator.gt),
    "<=": _ordered(operator.le),
    ">=": _ordered(operator.ge),
    "=~": _matches,
}
