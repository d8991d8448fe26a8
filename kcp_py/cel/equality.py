"""When two values are equal, and which type a value has (cel-spec, "Equality" and "Runtime types").

Numbers of different kinds are compared by what they stand for; a bool equals no number; values of unrelated kinds are unequal, never an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from kcp_py.cel.values import BoolKey, Duration, Optional, Timestamp, TypeValue, UInt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["contains", "equal", "equality_for", "identity", "identity_by", "is_exact", "type_of_value"]

_NUMBERS: Final = frozenset({int, float, UInt})
# Of two values of one of these kinds Python's comparison is right, and nothing is inside.
_ALIKE: Final = frozenset({str, int, bool, float, type(None)})
_EXACT: Final = frozenset({"null", "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"})
_TYPES: Final[dict[type, Type]] = {
    type(None): NULL,
    bool: BOOL,
    BoolKey: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    list: list_of(DYN),
    dict: map_of(DYN, DYN),
    Optional: optional_of(DYN),
}


def equal(one: object, other: object) -> bool:
    """Whether two values of any type are equal. Walks without recursion: the data may be as deep as a request allows."""
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        kind, other_kind = type(left), type(right)
        if kind is not other_kind:
            if kind in _NUMBERS and other_kind in _NUMBERS:
                if left != right:
                    return False
            elif not (isinstance(left, Optional) and isinstance(right, Optional)) or left != right:
                return False
        elif kind is dict:
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            if left.keys() != right.keys():
                return False
            for key, value in left.items():
                other_value = right[key]
                if type(value) is type(other_value) and type(value) in _ALIKE:
                    if value != other_value:
                        return False
                else:
                    pending.append((value, other_value))
        elif kind is list:
            assert isinstance(left, list)
            assert isinstance(right, list)
            if len(left) != len(right):
                return False
            for value, other_value in zip(left, right, strict=True):
                if type(value) is type(other_value) and type(value) in _ALIKE:
                    if value != other_value:
                        return False
                else:
                    pending.append((value, other_value))
        elif kind is Optional:
            assert isinstance(left, Optional)
            assert isinstance(right, Optional)
            pending.append((left.value, right.value))
        elif left != right:
            return False
    return True


def contains(value: object, items: list[object]) -> bool:
    """Whether a list holds something equal to `value`."""
    return any(equal(value, item) for item in items)


def is_exact(kind: Type) -> bool:
    """Whether Python's `==` is CEL's for two values of this type."""
    match kind.kind:
        case "list":
            return kind.list_type == "atomic" and _is_exact_inside(kind.element)
        case "map":
            return kind.key.kind == "string" and _is_exact_inside(kind.value)
        case "object":
            return all(_is_exact_inside(field.type) for field in (kind.fields or {}).values())
        case "opaque":
            return kind.name != "optional_type"
        case _:
            return kind.kind in _EXACT


def _is_exact_inside(kind: Type) -> bool:
    """Whether Python's comparison is right for values of a type inside of a container, where Python takes a NaN as equal to itself."""
    return kind.kind != "double" and is_exact(kind)


def equality_for(kind: Type) -> Callable[[object, object], bool]:
    """Equality of two values of a type in which lists may be sets or maps, whose order does not count.

    Source: apiserver `pkg/cel/common/values.go` (`unstructuredSetList`, `unstructuredMapList`).
    """
    if not _has_unordered(kind):
        return equal
    match kind.kind:
        case "list":
            return _list_equality(kind)
        case "map":
            return _map_equality(equality_for(kind.value))
        case _:
            return _object_equality(
                {field.key: equality_for(field.type) for field in (kind.fields or {}).values() if _has_unordered(field.type)}
            )


def _has_unordered(kind: Type) -> bool:
    """Whether a list that is not a sequence is anywhere in a type."""
    match kind.kind:
        case "list":
            return kind.list_type != "atomic" or _has_unordered(kind.element)
        case "map":
            return _has_unordered(kind.value)
        case "object":
            return any(_has_unordered(field.type) for field in (kind.fields or {}).values())
        case _:
            return False


def _list_equality(kind: Type) -> Callable[[object, object], bool]:
    """For sets, map lists, and sequences of things that hold some."""
    inner = equality_for(kind.element)
    keys = kind.list_keys

    def in_order(one: object, other: object) -> bool:
        if not (isinstance(one, list) and isinstance(other, list)):
            return equal(one, other)
        return len(one) == len(other) and all(map(inner, one, other))

    def as_sets(one: object, other: object) -> bool:
        if not (isinstance(one, list) and isinstance(other, list)):
            return equal(one, other)
        if len(one) != len(other):
            return False
        return set(map(identity, one)) == set(map(identity, other))

    def by_keys(one: object, other: object) -> bool:
        if not (isinstance(one, list) and isinstance(other, list)):
            return equal(one, other)
        if len(one) != len(other):
            return False
        known = {identity_by(item, keys): item for item in other}
        return all((match := known.get(identity_by(item, keys))) is not None and inner(item, match) for item in one)

    return {"set": as_sets, "map": by_keys}.get(kind.list_type, in_order)


def identity(value: object) -> object:
    """Something hashable that is equal for equal values only: a set of a hundred thousand elements is compared in linear time."""
    kind = type(value)
    if kind is str or kind is int or kind is float:
        return value
    if kind is list:
        assert isinstance(value, list)
        return tuple(map(identity, value))
    if kind is dict:
        assert isinstance(value, dict)
        return frozenset((key, identity(item)) for key, item in value.items())
    return (kind, value)


def identity_by(item: object, keys: tuple[str, ...]) -> tuple[object, ...]:
    """A hashable identity of an element of a map list: that of the values of its keys."""
    if not isinstance(item, dict):
        return (id(item),)
    return tuple(identity(item.get(key)) for key in keys)


def _map_equality(inner: Callable[[object, object], bool]) -> Callable[[object, object], bool]:
    """For maps whose values hold unordered lists."""

    def compare(one: object, other: object) -> bool:
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return equal(one, other)
        return one.keys() == other.keys() and all(inner(value, other[key]) for key, value in one.items())

    return compare


def _object_equality(unordered: dict[str, Callable[[object, object], bool]]) -> Callable[[object, object], bool]:
    """For objects some of whose fields hold unordered lists."""

    def compare(one: object, other: object) -> bool:
        if not (isinstance(one, dict) and isinstance(other, dict)):
            return equal(one, other)
        return one.keys() == other.keys() and all(unordered.get(key, equal)(value, other[key]) for key, value in one.items())

    return compare


def type_of_value(value: object) -> TypeValue:
    """What `type(x)` gives."""
    if isinstance(value, Optional):
        return TypeValue(optional_of(DYN))
    if isinstance(value, TypeValue):
        return TypeValue(type_of(DYN))
    known = _TYPES.get(type(value))
    return TypeValue(known if known is not None else getattr(type(value), "cel_type", DYN))
