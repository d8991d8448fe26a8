"""`constrain`: what constraints and markers of a field say, in its schema."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, Final

from kcp_py.client.forms import to_duration
from kcp_py.library.types.fields import DefinitionError
from kcp_py.library.types.markers import IMMUTABLE, Fixed, Rule, Schema

_BOUNDS: Final = (
    ("ge", "minimum", ""),
    ("gt", "minimum", "exclusiveMinimum"),
    ("le", "maximum", ""),
    ("lt", "maximum", "exclusiveMaximum"),
)
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_COMPARISONS: Final = {"ge": (">=", "at least"), "gt": (">", "more than"), "le": ("<=", "at most"), "lt": ("<", "less than")}


def constrain(found: dict[str, Any], metadata: Sequence[Any], place: str) -> None:
    """Add to a schema what constraints say: those of annotated-types, which Pydantic uses, and our own.

    Raises:
        DefinitionError: a constraint cannot be one of the type.
    """
    rules: list[dict[str, Any]] = []
    kind = found.get("type", "")
    for one in metadata:
        if isinstance(one, Rule):
            rules.append(one.document())
        elif isinstance(one, Schema):
            found.update(one.keywords())
            if one.immutable:
                rules.append(IMMUTABLE.document())
        elif not isinstance(one, Fixed):
            rules.extend(_bound(found, kind, one, place))
    if rules:
        found["x-kubernetes-validations"] = [*found.get("x-kubernetes-validations", ()), *rules]


def _bound(found: dict[str, Any], kind: str, constraint: Any, place: str) -> list[dict[str, Any]]:
    """Add the keywords of a constraint; the rules for what keywords do not say."""
    rules: list[dict[str, Any]] = []
    for name, keyword, exclusive in _BOUNDS:
        if (value := getattr(constraint, name, None)) is None:
            continue
        if isinstance(value, dt.timedelta):
            rules.append(_of_duration(name, value, place))
            continue
        if not isinstance(value, int | float):
            raise DefinitionError(f"{place}: the bound {name}={value!r} is not a number")
        found[keyword] = value
        if exclusive:
            found[exclusive] = True
    if isinstance(value := getattr(constraint, "multiple_of", None), int | float):
        found["multipleOf"] = value
    for name, prefix in (("min_length", "min"), ("max_length", "max")):
        if isinstance(value := getattr(constraint, name, None), int):
            if kind not in _LENGTHS:
                raise DefinitionError(f"{place}: {name} is for texts, bytes, lists and maps")
            if found.get("format") == "byte":
                rules.append(_of_bytes(prefix, value))
                # Base64 has four characters for three bytes.
                value = -(-value // 3) * 4
            found[f"{prefix}{_LENGTHS[kind]}"] = value
    pattern = getattr(constraint, "pattern", None)
    if isinstance(pattern, str | re.Pattern):
        if found.get("format") == "byte":
            raise DefinitionError(f"{place}: a pattern is for texts, and bytes are base64; use a Rule")
        found["pattern"] = pattern if isinstance(pattern, str) else pattern.pattern
    return rules


def _of_duration(name: str, bound: dt.timedelta, place: str) -> dict[str, Any]:
    """A bound of a timedelta: the schema of its text has none."""
    sign, words = _COMPARISONS[name]
    try:
        text = to_duration(bound)
    except ValueError as error:
        raise DefinitionError(f"{place}: the bound {error}") from None
    return Rule(f"duration(self) {sign} duration('{text}')", message=f"must be {words} {text}").document()


def _of_bytes(prefix: str, length: int) -> dict[str, Any]:
    """A length of bytes, which that of their text does not say exactly. In rules, `format: byte` is bytes."""
    sign, words = (">=", "at least") if prefix == "min" else ("<=", "at most")
    return Rule(f"size(self) {sign} {length}", message=f"must have {words} {length} bytes").document()
