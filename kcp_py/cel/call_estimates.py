"""What calls of single functions are estimated to cost, and how large their results can be.

Sources: cel-go `checker/cost.go` (`functionCost`), `ext/sets.go` and `ext/lists.go`; apiserver `pkg/cel/library/cost.go`
(`EstimateCallCost`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kcp_py.cel import operators
from kcp_py.cel.ranges import NOTHING, ONE, UNKNOWN, Estimate, exactly
from kcp_py.cel.values import UINT_MAX, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.types import Type

__all__ = ["Argument", "CallEstimate", "estimate_call"]

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_LONGEST_FORMAT: Final = 64
_LONGEST_FORMAT_PATTERN: Final = 128
_ADDRESS: Final = Estimate(4, 16)
_TEXTS: Final = frozenset({"string", "bytes"})


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call.

    Attributes:
        type: its static type.
        size: of its value.
        element_size: of the elements of a list, from its declaration.
        literal: its value where that is written in place, else None.
    """

    type: Type
    size: Estimate
    element_size: Estimate
    literal: object


CallEstimate: TypeAlias = "tuple[Estimate, Estimate | None]"
"""The cost without the arguments', and the size of the result where it is known."""


def estimate_call(function: str, overload: str, target: Argument | None, arguments: Sequence[Argument]) -> CallEstimate:
    """One overload of a function.

    Args:
        function: the function's name.
        overload: the id of the overload.
        target: the receiver of a member function.
        arguments: the others.
    """
    given = (*(() if target is None else (target,)), *arguments)
    rule = _BY_OVERLOAD.get(overload)
    if rule is None and (target is not None) == (function in _MEMBERS):
        rule = _BY_FUNCTION.get(function)
    if rule is None and overload.startswith("list_") and overload.endswith(("_sort", "_sortByAssociatedKeys")):
        rule = _sort
    return (ONE, None) if rule is None else rule(*given)


def _traversal(text: Argument, *_: Argument) -> CallEstimate:
    """A look at each character."""
    return text.size.scaled(_TRAVERSAL), None


def _transformation(text: Argument, *_: Argument) -> CallEstimate:
    """A text that is no longer than the one it was made of."""
    return text.size.scaled(_TRAVERSAL), text.size


def _twice(text: Argument, *_: Argument) -> CallEstimate:
    """Two looks at each character."""
    return text.size.scaled(2 * _TRAVERSAL), None


def _affix(_text: Argument, affix: Argument) -> CallEstimate:
    """`startsWith`, `endsWith`."""
    return affix.size.scaled(_TRAVERSAL), None


def _contains(text: Argument, part: Argument) -> CallEstimate:
    """A part anywhere in a text."""
    return text.size.scaled(_TRAVERSAL).times(part.size.scaled(_TRAVERSAL)), None


def _matches(text: Argument, pattern: Argument) -> CallEstimate:
    """A pattern anywhere in a text, which may be empty."""
    return text.size.plus(ONE).scaled(_TRAVERSAL).times(pattern.size.scaled(_PATTERN)), None


def _find(text: Argument, pattern: Argument, *_: Argument) -> CallEstimate:
    """What a pattern finds; every character for itself at worst."""
    cost, _size = _matches(text, pattern)
    return cost, Estimate(0, text.size.max)


def _in_list(_value: Argument, items: Argument) -> CallEstimate:
    """A comparison with each element."""
    return items.size.scaled(1), None


def _comparison(one: Argument, other: Argument) -> CallEstimate:
    """A comparison, which ends with the shorter value."""
    largest = min(one.size.max, other.size.max)
    return Estimate(1 if largest > 0 else 0, largest).scaled(_TRAVERSAL), None


def _equality(one: Argument, other: Argument) -> CallEstimate:
    """`==`: of Kubernetes' own values a constant."""
    if one.type == other.type:
        kind = one.type.name
        if kind in _CHEAP or kind.startswith("kubernetes.authorization."):
            return ONE, None
        if kind == "kubernetes.NamedFormat":
            return Estimate(1, _LONGEST_FORMAT).scaled(_TRAVERSAL), None
        if kind == "kubernetes.URL":
            return Estimate(1, 1 if other.size == UNKNOWN else other.size.max).scaled(_TRAVERSAL), None
    return _comparison(one, other)


def _concatenation(one: Argument, other: Argument) -> CallEstimate:
    """`+` of texts copies both."""
    size = one.size.plus(other.size)
    return size.scaled(_TRAVERSAL), size


def _list_concatenation(one: Argument, other: Argument) -> CallEstimate:
    """`+` of lists copies nothing."""
    return ONE, one.size.plus(other.size)


def _to_bytes(text: Argument) -> CallEstimate:
    """A character has at most four bytes."""
    return text.size.scaled(_TRAVERSAL), Estimate(text.size.min, min(text.size.max * 4, UINT_MAX))


def _to_string(data: Argument) -> CallEstimate:
    """Four bytes are at least one character."""
    return data.size.scaled(_TRAVERSAL), Estimate(data.size.min // 4, data.size.max)


def _quote(text: Argument) -> CallEstimate:
    """At worst each character is escaped."""
    return text.size.scaled(_TRAVERSAL), Estimate(min(text.size.min + 2, UINT_MAX), min(text.size.max * 2 + 2, UINT_MAX))


def _walk(items: Argument, *_: Argument) -> CallEstimate:
    """Something is done with each element of a list, or each character of a text."""
    if not items.type.parameters:
        return items.size.scaled(_TRAVERSAL), None
    each = ONE
    if items.type.parameters[0].kind in _TEXTS:
        each = each.plus(items.element_size.scaled(_TRAVERSAL))
    return items.size.times(each), None


def _includes(items: Argument, *given: Argument) -> CallEstimate:
    """`includes` also takes a value that is not a list."""
    return _walk(items, *given) if items.type.parameters else (items.size.times(ONE), None)


def _replace(text: Argument, old: Argument, new: Argument, *_: Argument) -> CallEstimate:
    """`replace`: the longest and the shortest result depend on what replaces what."""
    if old.size.min == 0:
        largest = min(min(text.size.max + 1, UINT_MAX) * new.size.max + text.size.max, UINT_MAX)
    elif new.size.max <= old.size.min:
        largest = text.size.max
    else:
        largest = min(-(-text.size.max // old.size.min) * new.size.max, UINT_MAX)
    if old.size.max == 0:
        smallest = min(text.size.min + 1, UINT_MAX) * new.size.min + text.size.min
    elif old.size.max <= new.size.min:
        smallest = text.size.min
    else:
        smallest = -(-text.size.min // old.size.max) * new.size.min
    return text.size.scaled(2 * _TRAVERSAL), Estimate(min(smallest, UINT_MAX), largest)


def _split(text: Argument, *given: Argument) -> CallEstimate:
    """`split`: into single characters at worst, if nothing limits it."""
    largest = text.size.max
    if len(given) > 1 and type(given[1].literal) is int:
        largest = given[1].literal % (UINT_MAX + 1)
    return text.size.scaled(2 * _TRAVERSAL), Estimate(0, largest)


def _join(items: Argument, *given: Argument) -> CallEstimate:
    """`join`: all elements and the separators between them."""
    size = items.size.times(items.element_size) if items.type.parameters else NOTHING
    if given:
        separators = Estimate(max(items.size.min - 1, 0), max(items.size.max - 1, 0))
        size = size.plus(given[0].size.times(separators))
    return size.scaled(_TRAVERSAL), size


def _text_format(text: Argument, _values: Argument) -> CallEstimate:
    """`format`: its result has no bound."""
    return text.size.scaled(_TRAVERSAL), None


def _validate(_format: Argument, text: Argument) -> CallEstimate:
    """A named format's pattern."""
    return text.size.scaled(_TRAVERSAL).scaled(_LONGEST_FORMAT_PATTERN * _PATTERN), None


def _contains_ip(_net: Argument, _address: Argument) -> CallEstimate:
    """A comparison of addresses."""
    return _ADDRESS.plus(_ADDRESS).scaled(_TRAVERSAL), None


def _contains_ip_text(net: Argument, address: Argument) -> CallEstimate:
    """`containsIP` with an address that has to be parsed first."""
    return _contains_ip(net, address)[0].plus(address.size.scaled(_TRAVERSAL)), None


def _contains_cidr(net: Argument, other: Argument) -> CallEstimate:
    """A comparison of addresses, one of them masked."""
    return _contains_ip(net, other)[0].plus(_ADDRESS.scaled(_TRAVERSAL)).plus(ONE), None


def _contains_cidr_text(net: Argument, other: Argument) -> CallEstimate:
    """`containsCIDR` with a network that has to be parsed first."""
    return _contains_cidr(net, other)[0].plus(other.size.scaled(_TRAVERSAL)), None


def _selector(_check: Argument, text: Argument) -> CallEstimate:
    """A selector: a list, and a struct and a list for each of its requirements."""
    parts = text.size.scaled(0.5).scaled(50)
    return exactly(10).plus(text.size.scaled(_TRAVERSAL)).plus(parts), None


def _constant(units: int) -> Callable[..., CallEstimate]:
    """A cost that depends on nothing."""
    return lambda *_: (exactly(units), None)


def _sets(factor: float) -> Callable[[Argument, Argument], CallEstimate]:
    """Each element of one list with each of the other."""
    return lambda one, other: (one.size.times(other.size).scaled(factor).plus(ONE), None)


def _allocation(size: Estimate, factor: float = 1) -> CallEstimate:
    """A new list."""
    return size.scaled(factor).plus(ONE).plus(exactly(10)), size


def _literal_int(argument: Argument, default: int) -> int:
    """The value of a literal, not below zero."""
    value = argument.literal
    return max(value, 0) if isinstance(value, int) and not isinstance(value, (bool, UInt)) else default


def _slice(items: Argument, start: Argument, end: Argument) -> CallEstimate:
    """`slice`."""
    first, last = _literal_int(start, 0), _literal_int(end, items.size.max)
    return _allocation(exactly((last - first) % (UINT_MAX + 1)))


def _range(count: Argument) -> CallEstimate:
    """`lists.range`."""
    return _allocation(exactly(_literal_int(count, UINT_MAX)))


def _reverse(items: Argument) -> CallEstimate:
    """`reverse` of a list."""
    return _allocation(items.size)


def _flatten(items: Argument, *depth: Argument) -> CallEstimate:
    """`flatten`."""
    return _allocation(items.size, float(_literal_int(depth[0], UINT_MAX) if depth else 1))


def _distinct(items: Argument) -> CallEstimate:
    """`distinct` compares all with all."""
    return _allocation(items.size.times(items.size), 2)


def _sort(*given: Argument) -> CallEstimate:
    """`sort` and `sortBy`: by the elements, or by the keys that come second."""
    keys = given[-1]
    texts = bool(keys.type.parameters) and keys.type.parameters[0].kind in _TEXTS
    return _allocation(keys.size.times(keys.size), 2 + (_TRAVERSAL if texts else 0))


_CHEAP: Final = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})
_MEMBERS: Final = frozenset(
    {
        *("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes", "lowerAscii", "upperAscii", "substring", "trim"),
        *("replace", "split", "join", "find", "findAll"),
        *("validate", "containsIP", "containsCIDR", "check", "fieldSelector", "labelSelector", "contains", "startsWith", "endsWith"),
    }
)
_BY_FUNCTION: Final[dict[str, Callable[..., CallEstimate]]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    "includes": _includes,
    **dict.fromkeys(("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"), _transformation),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _traversal),
    "ip.isCanonical": _twice,
    "validate": _validate,
    "check": _constant(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    operators.EQUALS: _equality,
    operators.NOT_EQUALS: _comparison,
}
_BY_OVERLOAD: Final[dict[str, Callable[..., CallEstimate]]] = {
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "contains_string": _contains,
    "matches": _matches,
    "matches_string": _matches,
    "in_list": _in_list,
    "add_string": _concatenation,
    "add_bytes": _concatenation,
    "add_list": _list_concatenation,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "string_format": _text_format,
    **{f"{name}_{kind}": _comparison for name in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")},
    "cidr_ip": _constant(1),
    "cidr_contains_ip_ip": _contains_ip,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_cidr": _contains_cidr,
    "cidr_contains_cidr_string": _contains_cidr_text,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
}
