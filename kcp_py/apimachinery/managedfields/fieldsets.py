"""Sets of fields, as nested dicts: path element -> what is owned below, with `"."` where the element itself is owned.

Path elements are written as `fieldsV1` writes them: `f:name`, `k:{"key":"value"}`, `v:"value"`, `i:0`. Sets are never changed once they are
made; the functions share what they can.

Source: structured-merge-diff `fieldpath/set.go`, `serialize.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType

__all__ = [
    "EMPTY",
    "FieldSet",
    "FieldSetError",
    "decode",
    "difference",
    "encode",
    "intersection",
    "paths",
    "show",
    "union",
    "with_named_fields",
    "without",
]

FieldSet = dict[str, Any]
"""Path element -> FieldSet, and `"."` -> True."""

EMPTY: Final[FieldSet] = {}
OWN: Final = "."
_LEAF: Final[FieldSet] = {OWN: True}
_MAX_DEPTH: Final = 200


class FieldSetError(ValueError):
    """`fieldsV1` that cannot be read."""


def decode(fields: Any) -> FieldSet:
    """Read `fieldsV1`.

    Raises:
        FieldSetError: it is no set of fields.
    """
    if not isinstance(fields, dict):
        raise FieldSetError("fieldsV1 must be an object")
    return _decode(fields, root=True, depth=0)


def _decode(fields: Mapping[str, Any], *, root: bool, depth: int) -> FieldSet:
    if depth > _MAX_DEPTH:
        raise FieldSetError("fieldsV1 is nested too deep")
    if not fields:
        return {} if root else _LEAF
    result: FieldSet = {}
    for element, below in fields.items():
        if element == OWN:
            result[OWN] = True
            continue
        if not isinstance(below, dict):
            raise FieldSetError(f"{element} must be an object")
        result[_canonical(element)] = _decode(below, root=False, depth=depth + 1)
    return result


def _canonical(element: str) -> str:
    """A path element in the one form in which it compares."""
    kind = element[:2]
    if kind == "f:":
        return element
    try:
        value = orjson.loads(element[2:])
        match kind:
            case "k:" if isinstance(value, dict) and value:
                return key_element(value)
            case "v:":
                return value_element(value)
            case "i:" if type(value) is int:
                return element
    except orjson.JSONDecodeError:
        pass
    raise FieldSetError(f"missing or unknown path element {element[:100]}")


def key_element(keys: Mapping[str, Any]) -> str:
    """The path element of a list's item with keys."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value_element(value: Any) -> str:
    """The path element of a set's item."""
    return "v:" + orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def encode(fields: FieldSet) -> dict[str, Any]:
    """Write `fieldsV1`, its elements in the order of upstream: fields, then the others, each by text."""
    result: dict[str, Any] = {}
    if OWN in fields and len(fields) > 1:
        result[OWN] = {}
    for element in sorted(fields):
        if element != OWN:
            below = fields[element]
            result[element] = {} if len(below) == 1 and OWN in below else encode(below)
    return result


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one or the other."""
    if not other or one is other:
        return one
    if not one:
        return other
    result = dict(one)
    for element, below in other.items():
        mine = result.get(element)
        result[element] = below if mine is None or mine is True else union(mine, below)
    return result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in both."""
    result: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            continue
        if element == OWN:
            result[OWN] = True
        elif both := intersection(below, theirs):
            result[element] = both
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one alone."""
    if not other or not one:
        return one
    result: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            result[element] = below
        elif element != OWN and (rest := difference(below, theirs)):
            result[element] = rest
    return result


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one, and neither in the other nor below a member of it."""
    result: FieldSet = {}
    for element, below in one.items():
        theirs = other.get(element)
        if theirs is None:
            result[element] = below
        elif element != OWN and OWN not in theirs and (rest := without(below, theirs)):
            result[element] = rest
    return result


def with_named_fields(fields: FieldSet, kind: MergeType) -> FieldSet:
    """The set with every field on the way to a member as a member, where the type names the field (or every field, where it names none)."""
    result: FieldSet = {}
    for element, below in fields.items():
        if element == OWN:
            result[OWN] = True
            continue
        child = child_type(kind, element)
        inner = with_named_fields(below, child) if len(below) > 1 or OWN not in below else below
        if element.startswith("f:") and OWN not in inner and (kind.kind == "deduced" or element[2:] in kind.fields):
            inner = {OWN: True, **inner}
        result[element] = inner
    return result


def child_type(kind: MergeType, element: str) -> MergeType:
    """The type behind a path element."""
    if kind.kind == "deduced":
        return DEDUCED
    if element.startswith("f:") and (found := kind.fields.get(element[2:])) is not None:
        return found
    return kind.element or SCALAR


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member's path, outermost first, members before what is below them."""
    if OWN in fields and prefix:
        yield prefix
    for element in sorted(fields, key=_order):
        if element != OWN:
            yield from paths(fields[element], (*prefix, element))


def _order(element: str) -> tuple[int, str]:
    """Fields come before items with keys, these before values, these before indices."""
    return "fkvi".find(element[0]), element[2:]


def show(path: tuple[str, ...]) -> str:
    """A path as messages have it: `.spec.containers[name="x"].image`."""
    return "".join(map(_show, path))


def _show(element: str) -> str:
    kind, text = element[:2], element[2:]
    match kind:
        case "f:":
            return f".{text}"
        case "k:":
            keys = orjson.loads(text)
            return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in sorted(keys.items()))}]"
        case "v:":
            return f"[={text}]"
        case _:
            return f"[{text}]"
