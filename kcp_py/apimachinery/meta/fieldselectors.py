"""Field selectors: `metadata.name=a,status.phase!=Done`, with backslash escapes in values (k8s.io/apimachinery `pkg/fields`).

Which fields a kind can be selected by is for its owner to check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

_TERMS: Final = re.compile(r"(?:[^\\,]|\\.?)+", re.DOTALL)
_OPERATOR: Final = re.compile("!=|==|=")
_SPECIAL: Final = re.compile(r"[\\,=]")


class FieldRequirement(NamedTuple):
    """One condition on one field. All requirements of a selector must hold."""

    field: str
    operator: str
    """`=` or `!=`."""
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape_value(self.value)}"


class FieldSelector:
    """A parsed selector, immutable."""

    __slots__ = ("_equal", "_excluded", "_never", "requirements")

    def __init__(self, requirements: Iterable[FieldRequirement]) -> None:
        self.requirements = list(requirements)
        equal: dict[str, str] = {}
        excluded: dict[str, set[str]] = {}
        never = False
        for field, operator, value in self.requirements:
            if operator == "=":
                never = never or equal.setdefault(field, value) != value
            else:
                excluded.setdefault(field, set()).add(value)
        self._equal = tuple(equal.items())
        self._excluded = tuple((field, frozenset(values)) for field, values in excluded.items())
        self._never = never

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether an object is selected; `get` gives the text of a field, the empty text for one that is not set."""
        if self._never:
            return False
        for field, value in self._equal:
            if get(field) != value:
                return False
        return not any(get(field) in values for field, values in self._excluded)

    def requires_exact_match(self, field: str) -> str | None:
        """The one value that `field` must have, when the selector says so."""
        for required, value in self._equal:
            if required == field:
                return value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(tuple(self.requirements))


EVERYTHING: Final = FieldSelector(())


def parse_field_selector(text: str) -> FieldSelector:
    """Read the query form; terms are sorted, empty ones skipped.

    Raises:
        ValueError: not a selector; the text is upstream's.
    """
    if not text:
        return EVERYTHING
    requirements: list[FieldRequirement] = []
    for term in sorted(_TERMS.findall(text)):
        operator = _OPERATOR.search(term)
        if operator is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: operator.start()], unescape_value(term[operator.end() :])
        if field or value:
            requirements.append(FieldRequirement(field, "!=" if operator.group() == "!=" else "=", value))
    return FieldSelector(requirements)


def escape_value(value: str) -> str:
    """A text as the value of a term."""
    return _SPECIAL.sub(r"\\\g<0>", value)


def unescape_value(text: str) -> str:
    """The text that was escaped.

    Raises:
        ValueError: an unknown escape, or `,` or `=` without one.
    """
    if _SPECIAL.search(text) is None:
        return text
    pieces: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in {"\\", ",", "="}:
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            pieces.append(escaped)
        elif character in ",=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            pieces.append(character)
    return "".join(pieces)
