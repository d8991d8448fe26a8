"""Sets of fields in the form of `fieldsV1`: path element -> the set of the fields below.

Path elements are `f:name`, `k:{"key":"value"}`, `v:"value"`, `i:0`. Below the root an empty dict is a member without fields below
it; a member with fields below it contains `"."`. The root is not a member: an empty dict is the empty set there. Sets are immutable. The
functions share parts of their arguments, and return the first argument itself where the result is equal to it. The cost of a function grows
with the smaller of two sets.

Source: structured-merge-diff `fieldpath/set.go`, `serialize.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType
from kcp_py.golang.json import go_json

__all__ = [
    "EMPTY",
    "OWN",
    "FieldSet",
    "FieldSetError",
    "child_type",
    "decode",
    "difference",
    "in_order",
    "intersection",
    "is_member",
    "key_element",
    "member",
    "ordered",
    "paths",
    "reconciled",
    "show",
    "union",
    "value_element",
    "with_named_fields",
    "without",
]

FieldSet = dict[str, Any]
"""Path element -> FieldSet."""

EMPTY: Final[FieldSet] = {}
OWN: Final = "."
_BEHIND_FIELDS: Final = "g"
"""Path elements of other kinds than `.` and `f:` sort behind it."""
_MAX_DEPTH: Final = 128
_FEW: Final = 8
"""Path elements that are looked up one by one, without working out first which of them two places have in common."""
_MAX_KNOWN: Final = 100
"""Characters of a path element whose rank is cached."""
_HTML: Final = re.compile("[<>&\u2028\u2029]")
_INDEX: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)


_LARGEST_INT: Final = 2.0**63


class FieldSetError(ValueError):
    """`fieldsV1` that cannot be read."""


def decode(fields: Any) -> FieldSet:
    """Read `fieldsV1` that a client sent: elements in other spellings become those that compare.

    Raises:
        FieldSetError: it is not a set of fields.
    """
    if not isinstance(fields, dict):
        raise FieldSetError("fieldsV1 must be an object")
    result = _decode(fields, 0)
    result.pop(OWN, None)
    return result


def _decode(fields: Mapping[str, Any], depth: int) -> FieldSet:
    if depth > _MAX_DEPTH:
        raise FieldSetError("fieldsV1 is nested too deep")
    result: FieldSet = {}
    for element, below in fields.items():
        # What stands behind a place itself, and behind what a later version may know, is not looked at.
        if element == OWN:
            result[OWN] = {}
        elif canonical := _canonical(element):
            if below is not None and not isinstance(below, dict):
                raise FieldSetError(f"{element[:100]} must be an object")
            inner = _decode(below or {}, depth + 1)
            if canonical in result:  # in another spelling
                result = union(result, {canonical: inner})
            else:
                result[canonical] = inner
    return {} if len(result) == 1 and OWN in result else result


def _canonical(element: str) -> str:
    """A path element in the one form in which it compares; empty for kinds that a later version may know."""
    kind = element[:2]
    if kind == "f:":
        return element
    if kind[1:] != ":":
        raise FieldSetError("missing colon" if len(element) > 1 else "key must be 2 characters long")
    try:
        match kind:
            case "k:":
                value = orjson.loads(element[2:])
                if isinstance(value, dict):
                    return key_element(value)
            case "v:":
                return value_element(orjson.loads(element[2:]))
            case "i:":
                if _INDEX.fullmatch(element[2:]):
                    return f"i:{int(element[2:])}"
            case _:
                return ""
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass
    raise FieldSetError(f"invalid path element {element[:100]}")


def key_element(keys: Mapping[str, Any]) -> str:
    """The path element of a list's item with keys."""
    return "k:" + _encoded({name: _number(value) for name, value in keys.items()})


def value_element(value: Any) -> str:
    """The path element of a set's item."""
    return "v:" + _encoded(_number(value))


def _encoded(value: Any) -> str:
    """JSON with its keys sorted and, as Go writes it, harmless inside of HTML."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return go_json(value, sort=True) if _HTML.search(text) else text


def _number(value: Any) -> Any:
    """1.0 is the number 1; what no 64 bits hold stays a float."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) < _LARGEST_INT else value


def is_member(node: FieldSet) -> bool:
    """Whether the place of a path element is a member itself."""
    return not node or OWN in node


def member(node: FieldSet | None) -> FieldSet:
    """A place as a member, with the fields below it."""
    if not node:
        return {}
    return node if OWN in node else {OWN: {}, **node}


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in at least one of two sets."""
    if not other or one is other:
        return one
    return _joined(one, other) if one else other


def _joined(one: FieldSet, other: FieldSet) -> FieldSet:
    """The union of two sets that are not empty."""
    result: FieldSet | None = None
    for element, theirs in other.items():
        mine = one.get(element)
        if mine is theirs or (not theirs and mine is not None and (not mine or OWN in mine)):
            continue
        if mine is None:
            joined = theirs
        elif not mine or not theirs:
            joined = member(mine or theirs)
        else:
            joined = _joined(mine, theirs)
            if joined is mine:
                continue
        if result is None:
            result = dict(one)
        result[element] = joined
    return one if result is None else result


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in both sets."""
    if one is other:
        return one
    result: FieldSet = {}
    if len(other) < len(one):
        one, other = other, one
    for element, mine in one.items():
        theirs = other.get(element)
        if theirs is None:
            continue
        below: FieldSet = intersection(mine, theirs) if mine and theirs else {}
        if element == OWN or (is_member(mine) and is_member(theirs)):
            result[element] = {} if len(below) == 1 and OWN in below else below
        elif below:
            result[element] = below
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields of `one` that are not in `other`."""
    return _minus(one, other, whole=False) if one and other else one


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields of `one` that are neither in `other` nor below a member of it."""
    return _minus(one, other, whole=True) if one and other else one


def _minus(one: FieldSet, other: FieldSet, *, whole: bool) -> FieldSet:
    result: FieldSet | None = None
    for element in one.keys() & other.keys() if len(one) > _FEW else one:
        theirs = other.get(element)
        if theirs is None:
            continue
        mine = one[element]
        taken = not theirs or OWN in theirs
        if element == OWN or (taken and (whole or not mine)):
            rest: FieldSet | None = None
        elif not mine:
            continue
        elif not theirs:
            rest = {name: below for name, below in mine.items() if name != OWN} if OWN in mine else mine
        else:
            rest = _minus(mine, theirs, whole=whole) or None
        if rest is mine:
            continue
        if result is None:
            result = dict(one)
        if rest is None:
            del result[element]
        else:
            result[element] = {} if len(rest) == 1 and OWN in rest else rest
    return one if result is None else result


def with_named_fields(fields: FieldSet, kind: MergeType) -> FieldSet:
    """The set with every field on the way to a member as a member, where the type names the field (or every field, where it names none)."""
    result: FieldSet = {}
    deduced, named = kind.kind == "deduced", kind.fields
    for element, below in fields.items():
        if not below:
            result[element] = below
            continue
        inner = with_named_fields(below, child_type(kind, element))
        if element.startswith("f:") and (deduced or element[2:] in named):
            inner = member(inner)
        result[element] = inner
    return result


def reconciled(fields: FieldSet, kind: MergeType) -> FieldSet:
    """The set adapted to a type that has become atomic in places: an owner of parts of such a place owns all of it.

    Source: structured-merge-diff `typed/reconcile_schema.go`. Places that have become granular keep their owners.
    """
    return _with_atomic_wholes(fields, kind) if fields and _has_atomic_parts(fields, kind) else fields


def _has_atomic_parts(fields: FieldSet, kind: MergeType) -> bool:
    """Whether a set that is not empty has fields inside an atomic place. Types rarely change, so this is nearly always the whole work."""
    if kind.atomic:
        return True
    if kind.kind == "deduced":
        return False
    named, other = kind.fields, kind.element or SCALAR
    for element, below in fields.items():
        if below:
            child = named.get(element[2:], other) if element[0] == "f" else other
            if child.kind != "scalar" and _has_atomic_parts(below, child):
                return True
    return False


def _with_atomic_wholes(fields: FieldSet, kind: MergeType) -> FieldSet:
    """The set with atomic places in it as wholes."""
    if kind.atomic:
        return {}
    if kind.kind == "deduced":
        return fields
    named, other = kind.fields, kind.element or SCALAR
    result = dict(fields)
    for element, below in fields.items():
        child = named.get(element[2:], other) if element[0] == "f" else other
        if below and child.kind != "scalar":
            result[element] = _with_atomic_wholes(below, child)
    return result


def child_type(kind: MergeType, element: str) -> MergeType:
    """The type behind a path element."""
    if kind.kind == "deduced":
        return DEDUCED
    if element.startswith("f:") and (found := kind.fields.get(element[2:])) is not None:
        return found
    return kind.element or SCALAR


def ordered(fields: FieldSet) -> FieldSet:
    """The set with its members in the order of upstream: fields, items with keys, values, indices (`PathElement.Less`)."""
    result: FieldSet = {}
    for element in in_order(fields):
        below = fields[element]
        result[element] = ordered(below) if below else below
    return result


def in_order(elements: Iterable[str]) -> list[str]:
    """The path elements of one place in the order of `ordered`."""
    result = sorted(elements)
    if len(result) > 1 and result[-1] > _BEHIND_FIELDS:
        result.sort(key=_known_rank if max(map(len, result)) <= _MAX_KNOWN else _rank)
    return result


def _rank(element: str) -> tuple[int, Any]:
    kind, text = element[:2], element[2:]
    match kind:
        case "k:":
            return 2, [(name, _value_rank(value)) for name, value in sorted(orjson.loads(text).items())]
        case "v:":
            return 3, _value_rank(orjson.loads(text))
        case "i:":
            return 4, int(text)
        case "f:":
            return 1, text
        case _:
            return 0, text


_known_rank: Final = lru_cache(maxsize=4096)(_rank)
"""The ranks of short elements: the items of most lists have the same few keys, whose JSON would be decoded again for each write."""


def _value_rank(value: Any) -> tuple[int, Any]:
    """Numbers come before texts, these before booleans, lists, maps and null (structured-merge-diff `value.Compare`)."""
    match value:
        case bool():
            return 2, value
        case int() | float():
            return 0, value
        case str():
            return 1, value
        case list():
            return 3, [_value_rank(item) for item in value]
        case dict():
            return 4, [(name, _value_rank(item)) for name, item in sorted(value.items())]
        case _:
            return 5, 0


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every member. The members of one level come before those below them."""
    elements = sorted((element for element in fields if element != OWN), key=_order)
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
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
