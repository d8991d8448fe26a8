"""The cost of evaluation in cel-go's units; a unit is about 100 nanoseconds upstream.

Sources: cel-go `interpreter/runtimecost.go`, `ext/sets.go` and `ext/lists.go`; apiserver `pkg/cel/library/cost.go` (`CallCost`). Upstream
counts during evaluation. Here costs are charged in advance: constant costs are computed at compile time, and costs that hardly vary are
taken as constant. Where one unit of upstream's can mean much more work here (equality of deep values, results that are larger than their
arguments), the work is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.arithmetic import LARGEST
from kcp_py.cel.constants import CONVERSIONS
from kcp_py.cel.syntax import Call, Comprehension, Constant, Identifier, ListLiteral, MapLiteral, Select, StructLiteral
from kcp_py.cel.values import UINT_MAX, Optional
from kcp_py.golang.regexp import compile_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.declarations import Overload
    from kcp_py.cel.syntax import Expression
    from kcp_py.cel.types import Type

__all__ = ["adaptation_cost", "call_cost", "kept_cost", "node_cost", "step_cost"]

_LIGHT: Final = 100
_READ_TEXT: Final = 100
"""Characters that are decoded in the time that a unit stands for."""
_LONG_TEXT: Final = 1000
"""Characters that are compared in the time that a unit stands for."""
_NODES: Final[dict[type[Expression], int]] = {Identifier: 1, Select: 1, StructLiteral: 40}
_LIST: Final = 10
_MAP: Final = 30
# A cost that varies by no more than this is charged as a constant: to look at the arguments would cost more.
_TOLERANCE: Final = 3
_SIZED: Final = frozenset({"string", "bytes", "list", "map", "object", "dyn", "error", "parameter"})
_MEASURED: Final = (str, bytes, list, dict)
_TEXTS: Final = frozenset({"string", "bytes"})
_WALKING: Final = ("_is_sorted_bool", "_sum_", "_max_", "_min_")

# What a macro's fold does around the expressions that it was given: for each element, and for each that it keeps.
_STEPS: Final = {"all": 3, "exists": 4}
_KEEPS: Final = {"map": 12, "filter": 13, "transformList": 12, "transformMap": 3, "transformMapEntry": 2}
_UNCONDITIONAL: Final = {"map": 2, "transformList": 3, "transformMap": 3, "transformMapEntry": 3}


def node_cost(node: Expression) -> int:
    """The cost of a node itself, without its children and without what a call adds."""
    match node:
        case ListLiteral():
            return 0 if _is_constant(node) else _LIST
        case MapLiteral():
            return 0 if _is_constant(node) else _MAP
        case Comprehension():
            if node.macro is None:
                return 0
            return 2 if node.macro.function in {"exists_one", "existsOne"} else 1
        case _:
            return _NODES.get(type(node), 0)


def step_cost(node: Comprehension) -> int:
    """What a fold costs for each element, without the expressions of its macro."""
    if node.macro is None:
        return 1
    function = node.macro.function
    if _UNCONDITIONAL.get(function) == len(node.macro.args):
        return _KEEPS[function]
    return _STEPS.get(function, 0)


def kept_cost(node: Comprehension) -> int:
    """What a fold costs for each element of its result, where not every element of its range gives one."""
    if node.macro is None or _UNCONDITIONAL.get(node.macro.function) == len(node.macro.args):
        return 0
    return _KEEPS.get(node.macro.function, 0)


def call_cost(overloads: Sequence[Overload], arguments: Sequence[Expression], kinds: Sequence[Type]) -> int | Callable[..., int]:
    """The cost of a call beyond its arguments': a number where that is constant, else a function of the arguments' values.

    Args:
        overloads: those that may apply.
        arguments: the receiver of a member function first.
        kinds: their static types.
    """
    costs = [_overload_cost(overload.id, arguments, kinds) for overload in overloads]
    fixed = [cost for cost in costs if isinstance(cost, int)]
    variable = [cost for cost in costs if not isinstance(cost, int)]
    least = max(fixed, default=0)
    if not variable:
        return least
    if len(costs) == 1:
        return variable[0]
    return lambda *values: max(least, *(cost(*values) for cost in variable))


def adaptation_cost(value: object) -> int:
    """What it costs to adapt a text, the elements of a list, or the values of a map, each time that it is selected."""
    if isinstance(value, str):
        return 1 + len(value) // _READ_TEXT
    if not isinstance(value, (list, dict)):
        return 1
    items = value.values() if isinstance(value, dict) else value
    return len(value) + _weight(value) + sum([len(item) for item in items if type(item) is str]) // _READ_TEXT


def _overload_cost(overload: str, arguments: Sequence[Expression], kinds: Sequence[Type]) -> int | Callable[..., int]:
    """The cost of a call of one overload, or the function that computes it from the arguments."""
    if overload in {"index_list", "index_map"}:
        # A variable that selects an element is paid for with the element.
        return 0 if isinstance(arguments[1], Identifier) else 1
    if overload in _TEXT_CONVERSIONS and isinstance(arguments[0], Constant):
        return 0
    if overload in {"equals", "not_equals"} and (not _is_deep(kinds) or any(map(_is_constant, arguments))):
        rule = _Rule(_shorter)
    elif overload == "add_list":
        rule = _JOINED_LISTS[kinds[0].kind == "list" and kinds[0].list_type != "atomic"]
    elif overload == "in_list" and _is_constant(arguments[1]):
        rule = _Rule(lambda _, items: items // 64)
    elif overload in _SEARCHES and not isinstance(arguments[1], Constant):
        rule = _COMPILING
    elif overload.startswith("list_") and overload.endswith(("_sort", "_sortByAssociatedKeys")):
        rule = _Rule(_of_pairs)
    elif overload.startswith("list_") and any(part in overload for part in _WALKING):
        rule = _WALK
    else:
        known = _RULES.get(overload)
        if known is None:
            return 1
        rule = known
    return rule.cost_of(arguments, kinds)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a call's cost follows from its arguments.

    Attributes:
        of_sizes: from the sizes of the arguments; never falls when one of them grows. None: their values are needed.
        of_values: from the arguments' values, of whatever type.
    """

    of_sizes: Callable[..., int] | None
    of_values: Callable[..., int] | None = None

    def cost_of(self, arguments: Sequence[Expression], kinds: Sequence[Type]) -> int | Callable[..., int]:
        """The cost where it does not vary much, else the function of the values."""
        rule = self.of_sizes
        if rule is not None:
            ranges = [_size_range(argument, kind) for argument, kind in zip(arguments, kinds, strict=True)]
            largest = rule(*(high for _, high in ranges))
            if largest - rule(*(low for low, _ in ranges)) <= _TOLERANCE:
                return largest
        if self.of_values is not None:
            return self.of_values
        assert rule is not None
        return lambda *values: rule(*map(_size, values))


def _size_range(node: Expression, kind: Type) -> tuple[int, int]:
    """The sizes that a value can have, as far as its text or its declaration says."""
    match node:
        case Constant():
            size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
            return size, size
        case ListLiteral() if not node.optional_indices:
            return len(node.elements), len(node.elements)
        case Select() if kind.kind in {"string", "bytes", "list", "map"} and kind.max_size is not None:
            # Only a field's type is its own: that of other nodes may be one of several that were joined.
            return 0, kind.max_size
        case _:
            return (0, UINT_MAX) if _is_sized(kind) else (1, 1)


def _is_sized(kind: Type) -> bool:
    """Whether values of a type can be large."""
    return kind.kind in _SIZED or kind.name == "optional_type"


def _is_constant(node: Expression) -> bool:
    """Whether upstream computes a node's value once, before anything is evaluated."""
    match node:
        case Constant():
            return True
        case ListLiteral():
            return not node.optional_indices and all(map(_is_constant, node.elements))
        case MapLiteral():
            return all(not entry.optional and _is_constant(entry.key) and _is_constant(entry.value) for entry in node.entries)
        case Call():
            return node.function in CONVERSIONS and len(node.args) == 1 and isinstance(node.args[0], Constant)
        case _:
            return False


def _is_deep(kinds: Sequence[Type]) -> bool:
    """Whether two values may both be containers, whose own sizes say little of the work to compare them."""
    return all(_is_sized(kind) and kind.kind not in _TEXTS for kind in kinds)


def _size(value: object) -> int:
    """The size as `size()` gives it; 1 for a value without a size."""
    return len(value) if isinstance(value, _MEASURED) else 1


def _weight(value: object) -> int:
    """The work to look at all of a value, however deep, and as often as it holds one thing in several places: a unit for eight values."""
    if type(value) is not list and type(value) is not dict:
        return 0
    count, pending = 1, [value]
    # What holds itself many times over would be counted for ever; that much is beyond every budget.
    while pending and count < _BEYOND_BUDGETS:
        items = pending.pop()
        count += len(items) + 4
        for item in items.values() if type(items) is dict else items:
            kind = type(item)
            if kind is list or kind is dict:
                pending.append(item)
            elif kind is str:
                count += len(item) // 100
    return count // 8


def _tenth(size: int) -> int:
    """A look at each character."""
    return (size + 9) // 10


def _pattern(text: int, pattern: int) -> int:
    """RE2: the text, one longer, times the pattern, of which four characters are taken for a state."""
    return _tenth(text + 1) * ((pattern + 3) // 4)


def _compiling(text: Any, pattern: Any, *_: Any) -> int:
    """A pattern that is not a constant has to be compiled before the search, and compilation cannot be interrupted."""
    searching = _pattern(_size(text), _size(pattern))
    return searching + 10 * max(compile_microseconds(pattern) - _SMALL_PATTERN, 0) if isinstance(pattern, str) else searching


def _shorter(one: int, other: int) -> int:
    """A comparison goes as far as the shorter value."""
    return _tenth(min(one, other))


def _of_pairs(*sizes: int) -> int:
    """All elements with all: of the list, or of the keys that come second."""
    return 2 * sizes[-1] * sizes[-1] + 11


def _equality(one: object, other: object) -> int:
    """Equality of values that may be containers: those of different sizes differ at once."""
    while isinstance(one, Optional) and isinstance(other, Optional):
        one, other = one.value, other.value
    size = _size(one)
    if isinstance(one, (list, dict)) and type(one) is type(other) and size == _size(other):
        weight = _weight(one)
        # Many small values take longer to compare than to write down.
        return max(_tenth(size), weight if weight < _LIGHT else 5 * weight)
    return _tenth(min(size, _size(other)))


def _membership(value: object, items: object) -> int:
    """`in` of a list compares with each of its elements, which of long texts takes as long as to read them."""
    if not isinstance(items, list):
        return 1
    if isinstance(value, (list, dict)):
        return len(items) * max(1, _weight(value))
    return len(items) * (1 + _size(value) // _LONG_TEXT)


def _walk(items: object, *_: object) -> int:
    """Something is done with each element of a list, or each character of a text."""
    if isinstance(items, list):
        return max(len(items), 5 * _weight(items))
    return _tenth(_size(items))


def _replacement(text: Any, old: Any, new: Any, limit: Any = -1) -> int:
    """`replace`: the text that is read and the text that is written."""
    if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)):
        return 1
    count = text.count(old)
    if isinstance(limit, int) and 0 <= limit < count:
        count = limit
    return _tenth(2 * max(len(text), len(text) + count * (len(new) - len(old))))


def _joining(items: Any, separator: Any = "") -> int:
    """`join`: twice the text that is written."""
    if not isinstance(items, list):
        return 1
    return _tenth(2 * (sum(map(_size, items)) + max(len(items) - 1, 0) * _size(separator)))


def _formatting(text: object, values: Any) -> int:
    """`format`: the text and the values in it."""
    written = sum(map(_size, values)) if isinstance(values, list) else 0
    return _tenth(_size(text) + written) + _weight(values)


def _slicing(items: object, start: Any, end: Any) -> int:
    """`slice`: the elements of the result."""
    del items
    return max(end - start, 0) + 11 if isinstance(start, int) and isinstance(end, int) else 1


def _counting(count: Any) -> int:
    """`lists.range`, which refuses to make more than that."""
    return count + 11 if isinstance(count, int) and 0 <= count <= LARGEST else 1


def _flattening(items: Any, depth: Any = 1) -> int:
    """`flatten`: the elements for each level, at least those of the result."""
    if not isinstance(items, list):
        return 1
    levels = min(max(depth, 1), _DEEPEST) if isinstance(depth, int) else 1
    return max(len(items) * levels, sum(map(_size, items)), 5 * _weight(items) if levels > 1 else 0) + 11


# No value has more levels than that, so that no number of levels that is asked for makes more work.
_DEEPEST: Final = 100
_SMALL_PATTERN: Final = 500
"""Microseconds to compile a pattern that upstream's costs are right for."""
_BEYOND_BUDGETS: Final = 8_000_100
_TEXT_CONVERSIONS: Final = frozenset(
    {
        *("string_to_bool", "string_to_int64", "string_to_uint64", "string_to_double", "string_to_timestamp", "string_to_duration"),
        *("string_to_bytes", "int64_to_double", "double_to_int64", "int64_to_uint64", "int64_to_string", "double_to_string"),
    }
)
_WALK: Final = _Rule(None, _walk)
_SEARCHES: Final = frozenset({"matches", "matches_string", "string_find_string", "string_find_all_string", "string_find_all_string_int"})
_COMPILING: Final = _Rule(None, _compiling)
_JOINED_LISTS: Final = {
    False: _Rule(lambda one, other: 1 + (one + other) // 64),
    True: _Rule(lambda one, other: 1 + (one + other) // 4),
}
_TRAVERSAL: Final = _Rule(lambda text, *_: _tenth(text))
_READING: Final = _Rule(lambda text: 1 + text // 100)
_RULES: Final[dict[str, _Rule]] = {
    # The language.
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _Rule(lambda _, affix: _tenth(affix))),
    "contains_string": _Rule(lambda text, part: _tenth(text) * _tenth(part)),
    **dict.fromkeys(("matches", "matches_string"), _Rule(_pattern)),
    "in_list": _Rule(lambda _, items: items, _membership),
    **dict.fromkeys(("equals", "not_equals"), _Rule(None, _equality)),
    **{f"{name}_{kind}": _Rule(_shorter) for name in ("less", "less_equals", "greater", "greater_equals") for kind in ("string", "bytes")},
    **dict.fromkeys(("add_string", "add_bytes"), _Rule(lambda one, other: _tenth(one + other))),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string"), _TRAVERSAL),
    **dict.fromkeys(
        ("string_to_bool", "string_to_int64", "string_to_uint64", "string_to_double", "string_to_timestamp", "string_to_duration"), _READING
    ),
    # cel-go's extensions.
    **dict.fromkeys(("string_lower_ascii", "string_upper_ascii", "string_trim"), _TRAVERSAL),
    **dict.fromkeys(("string_substring_int", "string_substring_int_int", "strings_quote", "string_reverse"), _TRAVERSAL),
    **dict.fromkeys(("string_index_of_string", "string_index_of_string_int"), _TRAVERSAL),
    **dict.fromkeys(("string_last_index_of_string", "string_last_index_of_string_int"), _TRAVERSAL),
    **dict.fromkeys(("string_split_string", "string_split_string_int"), _Rule(lambda text, *_: _tenth(2 * text))),
    **dict.fromkeys(("string_replace_string_string", "string_replace_string_string_int"), _Rule(None, _replacement)),
    **dict.fromkeys(("list_join", "list_join_string"), _Rule(None, _joining)),
    "string_format": _Rule(None, _formatting),
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _Rule(lambda one, other: one * other + 1)),
    "list_sets_equivalent_list": _Rule(lambda one, other: 2 * one * other + 1),
    "list_slice": _Rule(None, _slicing),
    "lists_range": _Rule(None, _counting),
    "list_reverse": _Rule(lambda items: items + 11),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _Rule(None, _flattening)),
    "list_distinct": _Rule(_of_pairs),
    # Kubernetes.
    "list_a_index_of_int": _WALK,
    "list_a_last_index_of_int": _WALK,
    "list_includes_dyn_dyn": _WALK,
    **dict.fromkeys(("string_find_string", "string_find_all_string"), _Rule(_pattern)),
    "string_find_all_string_int": _Rule(lambda text, pattern, _: _pattern(text, pattern)),
    **dict.fromkeys(("string_to_url", "string_jsonpatch_escapeKey_string"), _TRAVERSAL),
    **dict.fromkeys(("string_to_quantity", "is_quantity_string"), _TRAVERSAL),
    **dict.fromkeys(("string_to_semver", "string_bool_to_semver", "is_semver_string", "is_semver_string_bool"), _TRAVERSAL),
    **dict.fromkeys(("string_to_ip", "is_ip", "string_to_cidr", "is_cidr"), _TRAVERSAL),
    "ip_is_canonical": _Rule(lambda text: _tenth(2 * text)),
    "cidr_contains_ip_ip": _Rule(lambda *_: 3),
    "cidr_contains_ip_string": _Rule(lambda _, text: 3 + _tenth(text)),
    "cidr_contains_cidr": _Rule(lambda *_: 5),
    "cidr_contains_cidr_string": _Rule(lambda _, text: 5 + _tenth(text)),
    "format-validate": _Rule(lambda _, text: 10 * _tenth(text + 1)),
    **dict.fromkeys(("pathcheck_check", "resourcecheck_check"), _Rule(lambda *_: 350_000)),
    **dict.fromkeys(("authorizer_fieldselector", "authorizer_labelselector"), _Rule(lambda _, text: 10 + _tenth(text) + 25 * text)),
}
