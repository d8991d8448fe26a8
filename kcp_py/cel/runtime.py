"""What generated code calls besides the libraries: selections from values of unknown type, literals, and paying for calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.dispatch import NO_SUCH_OVERLOAD
from kcp_py.cel.equality import identity, identity_by, type_of_value
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.values import NONE, BoolKey, Optional, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.types import Type
    from kcp_py.cel.values import Budget

__all__ = [
    "ERRORS",
    "as_optional",
    "charged",
    "elements",
    "has_dynamic",
    "has_optional",
    "in_list",
    "insert",
    "insert_entries",
    "list_union",
    "list_with_options",
    "map_literal",
    "optional_select",
    "pairs",
    "present_value",
    "select_dynamic",
    "truth",
]

_INDEX_OF_LIST: Final = "unsupported index type 'string' in list"
ERRORS: Final = (EvaluationError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What `&&`, `||`, `all` and `exists` absorb: every way in which generated code has no value."""


def charged(budget: Budget, cost: Callable[..., int], function: Callable[..., object], *args: object) -> object:
    """Pay for a call, then make it."""
    budget.charge(cost(*args))
    return function(*args)


def truth(value: object) -> bool:
    """A value that has to be a bool."""
    if value is True or value is False:
        return value
    raise EvaluationError(NO_SUCH_OVERLOAD)


def in_list(value: object, items: list[object]) -> bool:
    """`in` where Python's equality is right."""
    return value in items


def select_nullable(value: dict[str, Any], field: str) -> object:
    """A field of an object that is not there where it is null."""
    selected = value.get(field)
    if selected is None:
        raise KeyError(field)
    return selected


def select_dynamic(value: object, field: str) -> object:
    """A field of something whose type is not known."""
    if type(value) is dict:
        return value[field]
    if isinstance(value, Optional):
        return optional_select(value, field)
    if type(value) is list:
        raise EvaluationError(_INDEX_OF_LIST)
    # cel-go's answer for null and for scalars, too.
    raise KeyError(field)


def has_dynamic(value: object, field: str) -> bool:
    """`has()` of a field of something whose type is not known."""
    if isinstance(value, Optional):
        value = {} if value is NONE else value.value
    if type(value) is list:
        raise EvaluationError(_INDEX_OF_LIST)
    return type(value) is dict and field in value


def optional_select(value: object, field: str, adapt: Callable[[Any], Any] | None = None, *, nullable: bool = False) -> Optional:
    """`value.?field`, also of an optional."""
    if isinstance(value, Optional):
        if value is NONE:
            return NONE
        value = value.value
    if type(value) is not dict:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    if field not in value or (nullable and value[field] is None):
        return NONE
    return Optional(value[field] if adapt is None else adapt(value[field]))


def has_optional(value: object, field: str, *, nullable: bool = False) -> bool:
    """`has()` of a field of an optional."""
    return optional_select(value, field, nullable=nullable) is not NONE


def as_optional(value: object) -> Optional:
    """A value that has to be an optional."""
    if isinstance(value, Optional):
        return value
    raise EvaluationError(NO_SUCH_OVERLOAD)


def present_value(value: Optional) -> object:
    """What an optional holds."""
    if value is NONE:
        msg = "optional.none() dereference"
        raise EvaluationError(msg)
    return value.value


def elements(value: object) -> list[object]:
    """What a loop with one variable goes over: a list's elements, a map's keys."""
    if type(value) is list:
        return value
    if type(value) is dict:
        return [_key_value(key) for key in value]
    raise EvaluationError(NO_SUCH_OVERLOAD)


def pairs(value: object) -> list[tuple[object, object]]:
    """What a loop with two variables goes over: indices and elements, keys and values."""
    if type(value) is list:
        return list(enumerate(value))
    if type(value) is dict:
        return [(_key_value(key), item) for key, item in value.items()]
    raise EvaluationError(NO_SUCH_OVERLOAD)


def list_with_options(marks: str, items: Sequence[Any]) -> list[object]:
    """A list literal without its absent elements; `marks` has `?` where an element is optional."""
    for mark, item in zip(marks, items, strict=True):
        if mark == "?" and not isinstance(item, Optional):
            raise EvaluationError(NO_SUCH_OVERLOAD)
    return [item.value if mark == "?" else item for mark, item in zip(marks, items, strict=True) if mark != "?" or item is not NONE]


def map_literal(entries: Sequence[tuple[object, object, bool]]) -> dict[object, object]:
    """A map literal of (key, value, optional) without its absent entries.

    Raises:
        EvaluationError: a key is given twice or is of a kind that cannot be one.
    """
    result: dict[object, object] = {}
    for key, value, optional in entries:
        if optional:
            if not isinstance(value, Optional):
                raise EvaluationError(NO_SUCH_OVERLOAD)
            if value is NONE:
                continue
            insert(result, key, value.value)
        else:
            insert(result, key, value)
    return result


def insert(entries: dict[object, object], key: object, value: object) -> None:
    """Put one more entry into a map that is being made."""
    if type(key) is bool:
        key = BoolKey(key)
    elif type(key) not in {str, int, UInt}:
        msg = f"unsupported key type: {type_of_value(key).type}"
        raise EvaluationError(msg)
    if key in entries:
        msg = f"insert failed: key {key} already exists"
        raise EvaluationError(msg)
    entries[key] = value


def insert_entries(entries: dict[object, object], more: object) -> None:
    """Put all entries of another map into one that is being made."""
    if type(more) is not dict:
        raise EvaluationError(NO_SUCH_OVERLOAD)
    for key, value in more.items():
        insert(entries, _key_value(key), value)


def list_union(kind: Type) -> Callable[[list[Any], list[Any]], list[Any]]:
    """`+` of lists of a type that is a set or a map: elements that exist already are not added again, or replaced in their place.

    Source: apiserver `pkg/cel/common/values.go` (`unstructuredSetList.Add`, `unstructuredMapList.Add`).
    """
    keys = kind.list_keys

    def of_sets(one: list[Any], other: list[Any]) -> list[Any]:
        known = set(map(identity, one))
        return [*one, *(item for item in other if identity(item) not in known)]

    def of_maps(one: list[Any], other: list[Any]) -> list[Any]:
        result = list(one)
        places = {identity_by(item, keys): place for place, item in enumerate(one)}
        for item in other:
            place = places.get(identity_by(item, keys))
            if place is None:
                result.append(item)
            else:
                result[place] = item
        return result

    return of_sets if kind.list_type == "set" else of_maps


def _key_value(key: object) -> object:
    """The value that a dict's key stands for."""
    return key.value if type(key) is BoolKey else key
