"""Choosing an overload at run time, where the types of the arguments were not known before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import DYN
from kcp_py.cel.values import BoolKey, Duration, Optional, Timestamp, TypeValue, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kcp_py.cel.declarations import Overload
    from kcp_py.cel.types import Type

__all__ = ["NO_SUCH_OVERLOAD", "dispatcher", "is_a"]

NO_SUCH_OVERLOAD: Final = "no such overload"
_ANYTHING: Final = frozenset({"dyn", "error", "parameter"})
# A list's index may be a whole number of any kind: their implementations look.
_INDEX_OF_LIST: Final = frozenset(
    {"index_list", "list_optindex_optional_int", "optional_list_index_int", "optional_list_optindex_optional_int"}
)
_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "bool": (bool, BoolKey),
    "int": (int,),
    "uint": (UInt,),
    "double": (float,),
    "string": (str,),
    "bytes": (bytes,),
    "timestamp": (Timestamp,),
    "duration": (Duration,),
    "list": (list,),
    "map": (dict,),
    "object": (dict,),
    "type": (TypeValue,),
}


def is_a(value: object, kind: Type, matches: Mapping[str, type]) -> bool:
    """Whether a value may be an argument of a type; of lists and maps only the outermost level is looked at, as in cel-go."""
    if kind.kind in _ANYTHING:
        return True
    if kind.kind == "opaque":
        return isinstance(value, Optional if kind.name == "optional_type" else matches.get(kind.name, ()))
    return type(value) in _CLASSES[kind.kind]


def dispatcher(overloads: Sequence[Overload], matches: Mapping[str, type]) -> Callable[..., object]:
    """One function over all `overloads`: the first whose parameters fit the values is called.

    Args:
        overloads: those that the checker could not exclude; each with an implementation.
        matches: `Environment.matches`.
    """
    candidates = tuple(
        ((overload.parameters[0], DYN) if overload.id in _INDEX_OF_LIST else overload.parameters, overload.implementation)
        for overload in overloads
    )

    indexing = {overload.id for overload in overloads} == {"index_list", "index_map"}

    # What fits depends on the classes of the values alone, of which there are few.
    known: dict[tuple[type, ...], Callable[..., object]] = {}

    def call(*args: object) -> object:
        classes = tuple(map(type, args))
        if (found := known.get(classes)) is not None:
            return found(*args)
        for parameters, implementation in candidates:
            if implementation is not None and all(is_a(value, kind, matches) for value, kind in zip(args, parameters, strict=True)):
                known[classes] = implementation
                return implementation(*args)
        if indexing and not isinstance(args[0], Optional):
            # cel-go's answer for null and for scalars.
            raise KeyError(args[1])
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return call
