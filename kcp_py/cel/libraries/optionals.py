"""Optional values: `?.`, `[?k]`, `optional.of` and the functions of the result (cel-go `cel/library.go`, `OptionalTypes`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import operators
from kcp_py.cel.declarations import Function, Library, Macro, Overload
from kcp_py.cel.expander import MacroError
from kcp_py.cel.libraries.standard import list_place, map_key
from kcp_py.cel.runtime import optional_select, present_value
from kcp_py.cel.syntax import Identifier
from kcp_py.cel.times import FIRST
from kcp_py.cel.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, type_parameter
from kcp_py.cel.values import NONE, Duration, Optional, Timestamp

if TYPE_CHECKING:
    from kcp_py.cel.expander import Expander
    from kcp_py.cel.syntax import Expression

__all__ = ["OPTIONALS"]

_K: Final = type_parameter("K")
_V: Final = type_parameter("V")
_LIST: Final = list_of(_V)
_MAP: Final = map_of(_K, _V)
_OPTIONAL: Final = optional_of(_V)
# No text can spell it, so nothing in the expression can mean it.
_UNUSED: Final = "#unused"
_EMPTY: Final = (Duration(0), Timestamp(FIRST))


def _of_non_zero(value: object) -> Optional:
    """An optional of a value that is not the empty one of its type."""
    if value is None or (isinstance(value, bool | int | float | str | bytes | list | dict) and not value) or value in _EMPTY:
        return NONE
    return Optional(value)


def _list_index(items: list[object], index: object) -> Optional:
    """`items[?index]`."""
    place = list_place(index)
    return Optional(items[place]) if 0 <= place < len(items) else NONE


def _map_index(entries: dict[object, object], key: object) -> Optional:
    """`entries[?key]`."""
    key = map_key(key)
    return Optional(entries[key]) if key in entries else NONE


def _optional_list_index(items: Optional, index: object) -> Optional:
    """`items[?index]` for a list that may be absent."""
    return NONE if items is NONE else _list_index(_as(list, items.value), index)


def _optional_map_index(entries: Optional, key: object) -> Optional:
    """`entries[?key]` for a map that may be absent. A value of type `dyn` may be a list."""
    if entries is NONE:
        return NONE
    if type(entries.value) is list:
        return _list_index(entries.value, key)
    return _map_index(_as(dict, entries.value), key)


def _as(kind: type, value: Any) -> Any:
    """A value of unknown type that has to be of one.

    Raises:
        TypeError: it is of another.
    """
    if type(value) is kind:
        return value
    raise TypeError


def _unwrap(items: list[Any]) -> list[object]:
    """The values that are there."""
    return [_as_optional(item).value for item in items if item is not NONE]


def _as_optional(value: object) -> Optional:
    """An element that has to be an optional."""
    if isinstance(value, Optional):
        return value
    raise TypeError


def _bound(expander: Expander, target: Expression, args: tuple[Expression, ...], function: str) -> tuple[Expression, Expression]:
    """The test for a value, and the transformation with the value under its name."""
    variable, transform = args
    if not isinstance(variable, Identifier) or variable.name.startswith("."):
        raise MacroError(variable, f"{function}() variable name must be a simple identifier")
    value = expander.fold(
        expander.list(),
        _UNUSED,
        init=expander.member_call(expander.copy(target), "value"),
        condition=expander.constant(value=False),
        step=expander.identifier(variable.name),
        result=transform,
        accumulator=variable.name,
    )
    return expander.member_call(target, "hasValue"), value


def _opt_map(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`o.optMap(x, t)`: the transformed value as an optional."""
    test, value = _bound(expander, target, args, "optMap")
    return expander.call(operators.CONDITIONAL, test, expander.call("optional.of", value), expander.call("optional.none"))


def _opt_flat_map(expander: Expander, target: Expression, args: tuple[Expression, ...]) -> Expression:
    """`o.optFlatMap(x, t)`: the transformation gives an optional itself."""
    test, value = _bound(expander, target, args, "optFlatMap")
    return expander.call(operators.CONDITIONAL, test, value, expander.call("optional.none"))


def _first(items: list[object]) -> Optional:
    """The first element, if there is one."""
    return Optional(items[0]) if items else NONE


def _last(items: list[object]) -> Optional:
    """The last element, if there is one."""
    return Optional(items[-1]) if items else NONE


OPTIONALS: Final = Library(
    "optional",
    functions=(
        Function("optional.of", (Overload("optional_of", (_V,), _OPTIONAL, implementation=Optional),)),
        Function("optional.ofNonZeroValue", (Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, implementation=_of_non_zero),)),
        Function("optional.none", (Overload("optional_none", (), _OPTIONAL, implementation=lambda: NONE),)),
        Function("optional.unwrap", (Overload("optional_unwrap", (list_of(_OPTIONAL),), _LIST, implementation=_unwrap),)),
        Function("unwrapOpt", (Overload("optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, member=True, implementation=_unwrap),)),
        Function("first", (Overload("list_first", (_LIST,), _OPTIONAL, member=True, implementation=_first),)),
        Function("last", (Overload("list_last", (_LIST,), _OPTIONAL, member=True, implementation=_last),)),
        Function("value", (Overload("optional_value", (_OPTIONAL,), _V, member=True, implementation=present_value),)),
        Function(
            "hasValue", (Overload("optional_hasValue", (_OPTIONAL,), BOOL, member=True, implementation=lambda value: value is not NONE),)
        ),
        # Both are lazy in their argument: the generator writes them.
        Function("or", (Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, member=True),)),
        Function("orValue", (Overload("optional_orValue_value", (_OPTIONAL, _V), _V, member=True),)),
        Function(
            operators.OPTIONAL_SELECT,
            (Overload("select_optional_field", (DYN, STRING), optional_of(DYN), implementation=optional_select),),
        ),
        Function(
            operators.OPTIONAL_INDEX,
            (
                Overload("list_optindex_optional_int", (_LIST, INT), _OPTIONAL, implementation=_list_index),
                Overload("optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL, implementation=_optional_list_index),
                Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL, implementation=_map_index),
                Overload("optional_map_optindex_optional_value", (optional_of(_MAP), _K), _OPTIONAL, implementation=_optional_map_index),
            ),
        ),
        Function(
            operators.INDEX,
            (
                Overload("optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL, implementation=_optional_list_index),
                Overload("optional_map_index_value", (optional_of(_MAP), _K), _OPTIONAL, implementation=_optional_map_index),
            ),
        ),
    ),
    macros=(
        Macro("optMap", 2, receiver=True, expand=_opt_map),
        Macro("optFlatMap", 2, receiver=True, expand=_opt_flat_map),
    ),
    types={"optional_type": optional_of(DYN)},
)
