"""Label selectors: the query grammar and the `LabelSelector` object.

Source: k8s.io/apimachinery `pkg/labels` and `pkg/apis/meta/v1/helpers.go` (1.37).
A selector is compiled once, so that matching costs no more than the object has labels, however many requirements a client sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.fielderrors import FieldError, aggregate
from kcp_py.apimachinery.meta import names
from kcp_py.golang.quoting import go_quote

_TOKENS: Final = re.compile(r"[^ \t\r\n=!(),<>]+|==|!=|[=!(),<>]")
_SPECIAL: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_OPERATORS: Final = {"in": "in", "notin": "notin", "=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
_OPERATOR_LIST: Final = ", ".join(_OPERATORS.values())
_SYMBOLS: Final = {"=": "=", "==": "==", "!=": "!=", "gt": ">", "lt": "<"}
_OBJECT_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_END: Final = ""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_MAX_CACHED: Final = 512


class Requirement(NamedTuple):
    """One condition on one label. All requirements of a selector must hold."""

    key: str
    operator: str
    """`in`, `notin`, `=`, `==`, `!=`, `gt`, `lt`, `exists` or `!`."""
    values: tuple[str, ...]
    """Sorted, without repetitions; empty for `exists` and `!`."""

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        joined = ",".join(self.values)
        if self.operator in {"in", "notin"}:
            return f"{self.key} {self.operator} ({joined})"
        return f"{self.key}{_SYMBOLS[self.operator]}{joined}"


class LabelSelector:
    """A parsed selector, immutable."""

    __slots__ = ("_above", "_absent", "_below", "_excluded", "_never", "_only_required", "_present", "_required", "_single", "requirements")

    def __init__(self, requirements: Iterable[Requirement], *, never: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._never = never
        required: dict[str, frozenset[str]] = {}
        excluded: dict[str, frozenset[str]] = {}
        present: dict[str, None] = {}
        absent: set[str] = set()
        above: dict[str, int] = {}
        below: dict[str, int] = {}
        for key, operator, values in self.requirements:
            match operator:
                case "in" | "=" | "==":
                    allowed = frozenset(values)
                    required[key] = required[key] & allowed if key in required else allowed
                case "notin" | "!=":
                    excluded[key] = excluded.get(key, frozenset()).union(values)
                case "exists":
                    present[key] = None
                case "!":
                    absent.add(key)
                case "gt":
                    above[key] = max(above.get(key, _INT64_MIN), int(values[0]))
                case _:
                    below[key] = min(below.get(key, _INT64_MAX), int(values[0]))
        self._required = tuple(required.items())
        self._single = tuple((key, next(iter(values))) for key, values in required.items() if len(values) == 1)
        self._only_required = not (excluded or present or absent or above or below or never) and len(self._single) == len(self._required)
        self._excluded = excluded
        self._present = tuple(present)
        self._absent = frozenset(absent)
        self._above = tuple(above.items())
        self._below = tuple(below.items())

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements and not self._never

    @property
    def single_values(self) -> Sequence[tuple[str, str]]:
        """Labels that every selected object has."""
        return self._single

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self._only_required:
            for key, value in self._single:  # noqa: SIM110  # a generator costs more than the loop
                if labels.get(key) != value:
                    return False
            return True
        return not self._never and self._matches(labels)

    def _matches(self, labels: Mapping[str, str]) -> bool:
        for key, values in self._required:
            if labels.get(key) not in values:
                return False
        for key in self._present:
            if key not in labels:
                return False
        if not self._absent.isdisjoint(labels):
            return False
        for key, limit in self._above:
            number = _parse_int(labels.get(key))
            if number is None or number <= limit:
                return False
        for key, limit in self._below:
            number = _parse_int(labels.get(key))
            if number is None or number >= limit:
                return False
        excluded = self._excluded
        return not excluded or not any(key in excluded and value in excluded[key] for key, value in labels.items())

    def requires_exact_match(self, key: str) -> str | None:
        """The one value that `key` must have, when the selector says so: what an index can be asked for."""
        for required, value in self._single:
            if required == key:
                return value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"LabelSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and (self.requirements, self._never) == (other.requirements, other._never)

    def __hash__(self) -> int:
        return hash((self.requirements, self._never))


EVERYTHING: Final = LabelSelector(())
NOTHING: Final = LabelSelector((), never=True)


def parse_label_selector(text: str) -> LabelSelector:
    """Read the query form: `a=b,c in (d,e),!f`.

    Raises:
        ValueError: not a selector; the text is upstream's.
    """
    if not text:
        return EVERYTHING
    return _parse_cached(text) if len(text) <= _MAX_CACHED else _parse(text)


def _parse(text: str) -> LabelSelector:
    if "\0" in text:
        # Upstream's lexer takes NUL for the end and ignores the rest of the selector.
        raise ValueError("unable to parse requirement: found NUL in the selector")
    return LabelSelector(_Parser(text).parse())


_parse_cached = lru_cache(maxsize=1024)(_parse)


def label_selector_of(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Compile a `LabelSelector` object (`matchLabels`, `matchExpressions`): null selects nothing, an empty one everything.

    Raises:
        ValueError: an operator, key or value is not valid.
    """
    if selector is None:
        return NOTHING
    requirements = [_requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise ValueError(f"{go_quote(expression.get('operator', ''))} is not a valid label selector operator")
        requirements.append(_requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector(requirements) if requirements else EVERYTHING


def _parse_int(value: str | None) -> int | None:
    if value is None or _INTEGER.fullmatch(value) is None:
        return None
    number = int(value)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def _requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """A checked requirement of a `LabelSelector` object, as upstream's `NewRequirement`."""
    errors: list[FieldError] = []
    if problems := names.qualified_name_problems(key):
        errors.append(fielderrors.invalid("key", key, "; ".join(problems)))
    if operator in {"in", "notin"} and not values:
        errors.append(fielderrors.invalid("values", [], "for 'in', 'notin' operators, values set can't be empty"))
    if operator in {"exists", "!"} and values:
        errors.append(fielderrors.invalid("values", list(values), "values set must be empty for exists and does not exist"))
    if errors:
        raise ValueError(aggregate(errors))
    return _with_values(key, operator, values)


def _with_values(key: str, operator: str, values: Sequence[str]) -> Requirement:
    errors: list[FieldError] = []
    if operator in {"gt", "lt"} and _parse_int(values[0]) is None:
        errors.append(fielderrors.invalid("values[0]", values[0], "for 'Gt', 'Lt' operators, the value must be an integer"))
    for index, value in enumerate(values):
        if value and (problems := names.label_value_problems(value)):
            errors.append(fielderrors.invalid(f"values[{index}][{key}]", value, "; ".join(problems)))
    if errors:
        raise ValueError(aggregate(errors))
    return Requirement(key, operator, tuple(values))


class _Parser:
    """Upstream's recursive descent; `in` and `notin` are operators only where one can stand."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = _TOKENS.findall(text)
        self._words.append(_END)
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        word = self._peek()
        if word != _END and not _is_identifier(word) and word != "!":
            raise ValueError(f"found '{word}', expected: !, identifier, or 'end of string'")
        while word != _END:
            try:
                requirements.append(self._parse_requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            word = self._next()
            if word == ",":
                word = self._peek()
                if not _is_identifier(word) and word != "!":
                    raise ValueError(f"found '{word}', expected: identifier after ','")
            elif word != _END:
                raise ValueError(f"found '{word}', expected: ',' or 'end of string'")
        return requirements

    def _peek(self) -> str:
        return self._words[self._position]

    def _next(self) -> str:
        word = self._words[self._position]
        if word != _END:
            self._position += 1
        return word

    def _parse_requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if not _is_identifier(key):
            _unexpected(key, "identifier")
        if problems := names.qualified_name_problems(key):
            raise ValueError(str(fielderrors.invalid("<nil>", key, "; ".join(problems))))
        if absent:
            return Requirement(key, "!", ())
        if self._peek() in {_END, ","}:
            return Requirement(key, "exists", ())
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            _unexpected(word, _OPERATOR_LIST)
        values = self._parse_values() if operator in {"in", "notin"} else {self._parse_exact_value()}
        return _with_values(key, operator, sorted(values))

    def _parse_exact_value(self) -> str:
        if self._peek() in {_END, ","}:
            return ""
        word = self._next()
        if not _is_identifier(word):
            _unexpected(word, "identifier")
        return word

    def _parse_values(self) -> set[str]:
        word = self._next()
        if word != "(":
            raise ValueError(f"found '{word}' expected: '('")
        word = self._peek()
        if word == ")":
            self._next()
            return {""}
        if word != "," and not _is_identifier(word):
            _unexpected(word, "',', ')' or identifier")
        values: set[str] = set()
        while True:
            word = self._next()
            if word == ",":
                if not values:
                    values.add("")
                following = self._peek()
                if following in {")", ","}:
                    values.add("")
            elif _is_identifier(word):
                values.add(word)
                following = self._peek()
                if following not in {")", ","}:
                    _unexpected(following, "',' or ')'")
            else:
                _unexpected(word, "',', or identifier")
            if following == ")":
                self._next()
                return values


def _is_identifier(word: str) -> bool:
    return word not in _SPECIAL and word != _END


def _unexpected(word: str, expected: str) -> NoReturn:
    raise ValueError(f"found '{word}', expected: {expected}")
