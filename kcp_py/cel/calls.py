"""Calls: operators and functions, as one Python expression each where the types of the arguments are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel import costs, operators, runtime
from kcp_py.cel.dispatch import dispatcher
from kcp_py.cel.emission import KEYS
from kcp_py.cel.equality import equal, equality_for, is_exact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.declarations import Overload
    from kcp_py.cel.emission import Emission
    from kcp_py.cel.syntax import Call
    from kcp_py.cel.types import Type

__all__ = ["emit_equality", "emit_function"]

_UNKNOWN: Final = frozenset({"dyn", "error", "parameter"})

# Calls that are one Python expression when the types of their arguments are known. In `{0}` only names, literals and parenthesised or
# subscripted expressions are put.
_INLINE: Final = {
    **{
        f"{name}_{kind}": f"({{0}} {symbol} {{1}})"
        for name, symbol in (("less", "<"), ("less_equals", "<="), ("greater", ">"), ("greater_equals", ">="))
        for kind in (
            *("bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration"),
            *(f"{one}_{other}" for one in ("int64", "uint64", "double") for other in ("int64", "uint64", "double") if one != other),
        )
    },
    **{name: "len({0})" for kind in ("string", "bytes", "list", "map") for name in (f"size_{kind}", f"{kind}_size")},
    "starts_with_string": "{0}.startswith({1})",
    "ends_with_string": "{0}.endswith({1})",
    "contains_string": "({1} in {0})",
    "logical_not": "(not {0})",
    "to_dyn": "{0}",
}


def emit_function(code: Emission, node: Call) -> str:
    """An operator or a function."""
    arguments = node.args if node.target is None else (node.target, *node.args)
    overloads = code.checked.overloads[node.id]
    kinds = [code.types[argument.id] for argument in arguments]
    texts = [code.emit(argument) for argument in arguments]
    charge = costs.call_cost(overloads, arguments, kinds)
    if isinstance(charge, int):
        code.cost += charge
        return _call(code, overloads, kinds, texts)
    function = _implementation(code, overloads, kinds)
    return f"charged(B, {code.constant(charge)}, {function}, {', '.join(texts)})"


def _call(code: Emission, overloads: Sequence[Overload], kinds: Sequence[Type], texts: Sequence[str]) -> str:
    """A call of constant cost."""
    if _are_known(overloads, kinds):
        (overload,) = overloads
        inline = _INLINE.get(overload.id)
        if inline is not None:
            return inline.format(*texts)
        if overload.id == "index_map" and kinds[0].key.kind in KEYS and kinds[1].kind in KEYS:
            return f"{texts[0]}[{texts[1]}]"
        if overload.id == "in_map" and kinds[1].key.kind in KEYS and kinds[0].kind in KEYS:
            return f"({texts[0]} in {texts[1]})"
    return f"{_implementation(code, overloads, kinds)}({', '.join(texts)})"


def _implementation(code: Emission, overloads: Sequence[Overload], kinds: Sequence[Type]) -> str:
    """The name of what runs a call."""
    if _are_known(overloads, kinds):
        (overload,) = overloads
        if overload.id == "add_list" and kinds[0].kind == "list" and kinds[0].list_type != "atomic":
            return code.constant(runtime.list_union(kinds[0]))
        if overload.id == "in_list" and is_exact(kinds[0]) and kinds[0] == kinds[1].element and kinds[0].kind not in {"bool", "double"}:
            return code.constant(runtime.in_list)
        return code.constant(overload.implementation)
    return code.constant(dispatcher(overloads, code.checked.environment.matches))


def _are_known(overloads: Sequence[Overload], kinds: Sequence[Type]) -> bool:
    """Whether the one overload is certain: no argument may be of another type at run time."""
    if len(overloads) != 1:
        return False
    return all(kind.kind not in _UNKNOWN or wanted.kind in _UNKNOWN for kind, wanted in zip(kinds, overloads[0].parameters, strict=True))


def emit_equality(code: Emission, node: Call) -> str:
    """`==` and `!=`."""
    one, other = node.args
    kinds = code.types[one.id], code.types[other.id]
    texts = code.emit(one), code.emit(other)
    charge = costs.call_cost(code.checked.overloads[node.id], node.args, kinds)
    same = node.function == operators.EQUALS
    if "null" in {kind.kind for kind in kinds}:
        code.cost += charge if isinstance(charge, int) else 1
        left, right = texts if kinds[1].kind == "null" else reversed(texts)
        # Through a name: Python warns of `is` with a literal.
        name = code.local()
        return f"(({name} := {left}) is {'' if same else 'not '}{right})"
    if isinstance(charge, int):
        code.cost += charge
        if kinds[0] == kinds[1] and is_exact(kinds[0]) and is_exact(kinds[1]):
            return f"({texts[0]} {'==' if same else '!='} {texts[1]})"
        return f"({'' if same else 'not '}{code.constant(_equality(*kinds))}({', '.join(texts)}))"
    text = f"charged(B, {code.constant(charge)}, {code.constant(_equality(*kinds))}, {', '.join(texts)})"
    return text if same else f"(not {text})"


def _equality(one: Type, other: Type) -> Callable[[object, object], bool]:
    """The equality of two static types: the left one's lists decide whether order counts."""
    if one.kind in _UNKNOWN:
        return equal if other.kind in _UNKNOWN else equality_for(other)
    return equality_for(one)
