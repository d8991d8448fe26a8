"""What an expression can cost at most and at least, from its text and the declared sizes alone.

Source: cel-go `checker/cost.go` with the size hints of apiextensions `pkg/apiserver/schema/cel/compilation.go` (`sizeEstimator`), which
looks a size up by the path that leads from the rule's root to a value. A path that begins at a value with no path of its own begins, for
upstream, at the root again; estimates decide which rules a definition may have, so this is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import operators
from kcp_py.cel.call_estimates import Argument, estimate_call
from kcp_py.cel.ranges import NOTHING, ONE, UNKNOWN, Estimate, exactly
from kcp_py.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Select,
    StructLiteral,
)
from kcp_py.cel.types import DYN, Type
from kcp_py.cel.values import UINT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.checked import Checked
    from kcp_py.cel.declarations import Overload
    from kcp_py.cel.syntax import Expression

__all__ = ["Estimate", "estimate"]

_LIST: Final = exactly(10)
_MAP: Final = exactly(30)
_STRUCT: Final = exactly(40)
_ROOT: Final = "self"
_NOWHERE: Final = Type("error", "nowhere")
_SCALARS: Final = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_MEASURED: Final = frozenset({"string", "bytes", "list", "map", "dyn", "timestamp", "duration"})
_SELECTABLE: Final = frozenset({"map", "object", "parameter"})
_EMPTY: Final = Estimate(UINT_MAX, 0)


def estimate(checked: Checked) -> Estimate:
    """The range of an expression's cost in cel-go's units; beyond 64 bits it is `UINT_MAX`.

    Args:
        checked: the expression. Sizes are taken from `Type.max_size` of variables, fields, elements and values; None of a string, list,
            map or `dyn`: no bound.
    """
    return _Estimator(checked).cost(checked.root)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of what a list or map holds: of its keys (of a list 1) and of its values."""

    kind: str
    key: Estimate
    value: Estimate


@dataclass(frozen=True, slots=True)
class _Local:
    """The estimates about a variable of a comprehension."""

    place: Type | None
    size: Estimate | None
    entries: _Entries | None


class _Estimator:
    """One run over one checked expression.

    A "place" is what the path to a value has been declared as: None for a value with no path, `_NOWHERE` for a path to nothing declared.
    """

    def __init__(self, checked: Checked) -> None:
        """Begin with nothing known."""
        self._checked = checked
        self._types = checked.types
        self._variables = checked.environment.variables
        self._root = _unwrapped(self._variables.get(_ROOT, _NOWHERE))
        self._places: dict[int, Type] = {}
        self._sizes: dict[int, Estimate] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Expression) -> Estimate:
        """The cost of a node and all below it."""
        return _COSTS[type(node)](self, node)

    def constant(self, node: Constant) -> Estimate:
        """A literal is free."""
        del node
        return NOTHING

    def identifier(self, node: Identifier) -> Estimate:
        """A variable."""
        local = self._local(node.name)
        place = local.place if local is not None else self._named(self._checked.names.get(node.id, node.name))
        if place is not None:
            self._places[node.id] = place
        return ONE

    def _named(self, name: str) -> Type:
        """The place of a variable of the environment; any other name is a path of one step."""
        kind = self._variables.get(name)
        return self._root if kind is None else _unwrapped(kind)

    def _local(self, name: str) -> _Local | None:
        """The innermost variable of that name that a comprehension has."""
        known = self._locals.get(name)
        return known[-1] if known else None

    def select(self, node: Select) -> Estimate:
        """A field; its presence is free."""
        name = self._checked.names.get(node.id)
        if name is not None:
            self._places[node.id] = self._named(name)
            return ONE
        operand = self.cost(node.operand)
        if node.test_only:
            return operand
        self._places[node.id] = self._step(self._place(node.operand), node.field)
        return operand.plus(ONE) if self._types[node.operand.id].kind in _SELECTABLE else operand

    def _place(self, node: Expression) -> Type | None:
        """What the path to a node's value has been declared as."""
        if isinstance(node, Identifier) and (local := self._local(node.name)) is not None:
            return local.place
        return self._places.get(node.id)

    def _step(self, place: Type | None, step: str) -> Type:
        """One step further: a field's name, `@items`, `@values`, `@keys` or `@indices`."""
        if place is None:
            return self._root
        if step in {"@items", "@values"}:
            return place.parameters[-1] if place.kind in {"list", "map"} else _NOWHERE
        if step == "@keys":
            # The keys of a map have no declared length, which upstream takes for a length of nothing.
            return _bounded(place.key) if place.kind == "map" else _NOWHERE
        field = (place.fields or {}).get(step)
        return _NOWHERE if field is None else field.type

    def call(self, node: Call) -> Estimate:
        """A call, over all of its overloads that can apply."""
        if node.function == "dyn" and len(node.args) == 1:
            (argument,) = node.args
            cost = self.cost(argument).plus(ONE)
            self._copy(node, argument)
            return cost
        costs = [self.cost(argument) for argument in node.args]
        arguments = [self._argument(argument) for argument in node.args]
        total, target = NOTHING, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._argument(node.target)
        function, result = _EMPTY, None
        for overload in self._checked.overloads.get(node.id, ()):
            cost, size = self._overload(node, overload, target, (arguments, costs))
            function = function.joined(cost)
            if size is not None:
                result = size if result is None else result.joined(size)
            result = self._indexed(node, overload, result)
        if result is not None:
            self._sizes[node.id] = result
        return total.plus(function)

    def _indexed(self, node: Call, overload: Overload, result: Estimate | None) -> Estimate | None:
        """The size of a call's result, as far as its overload leaves that to its arguments."""
        if overload.id in {"index_list", "index_map"}:
            entries = self._entries_of(node.args[0])
            result = None if entries is None else entries.value
            self._places[node.id] = self._step(self._place(node.args[0]), "@items" if overload.id == "index_list" else "@values")
        return self._size(node) if result is None else result

    def _argument(self, node: Expression) -> Argument:
        """What the cost of a call may depend on."""
        kind, place, size = self._types[node.id], self._place(node), self._size(node)
        element_size = None
        if kind.parameters and place is not None:
            element_size = _declared_size(self._step(place, "@items"))
        value = node.value if isinstance(node, Constant) else None
        return Argument(kind, UNKNOWN if size is None else size, element_size or UNKNOWN, value)

    def _overload(
        self,
        node: Call,
        overload: Overload,
        target: Argument | None,
        given: tuple[Sequence[Argument], Sequence[Estimate]],
    ) -> tuple[Estimate, Estimate | None]:
        """The cost of one overload with its arguments, and the size of its result where that is known."""
        arguments, costs = given
        match node.function:
            case operators.AND | operators.OR:
                # The second side may never be looked at.
                return Estimate(costs[0].min, costs[0].plus(costs[1]).max), None
            case operators.CONDITIONAL:
                one, other = self._entries_of(node.args[1]), self._entries_of(node.args[2])
                if (entries := _joined(one, other)) is not None:
                    self._entries[node.id] = entries
                return costs[0].plus(costs[1].joined(costs[2])), arguments[1].size.joined(arguments[2].size)
            case operators.ADD if overload.id in {"add_list", "add_string", "add_bytes"}:
                entries = _joined(self._entries_of(node.args[0]), self._entries_of(node.args[1]))
                if entries is not None:
                    self._entries[node.id] = entries
        cost, size = estimate_call(node.function, overload.id, target, arguments)
        for more in costs:
            cost = cost.plus(more)
        return cost, size

    def list(self, node: ListLiteral) -> Estimate:
        """A list literal."""
        total, items = _LIST, _EMPTY if node.elements else Estimate(0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            items = items.joined(self._size(element) or UNKNOWN)
        self._entries[node.id] = _Entries("list", ONE, items)
        return total

    def map(self, node: MapLiteral) -> Estimate:
        """A map literal."""
        total = _MAP
        keys = values = _EMPTY if node.entries else Estimate(0, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.joined(self._size(entry.key) or UNKNOWN)
            values = values.joined(self._size(entry.value) or UNKNOWN)
        self._entries[node.id] = _Entries("map", keys, values)
        return total

    def struct(self, node: StructLiteral) -> Estimate:
        """An object literal."""
        total = _STRUCT
        for entry in node.entries:
            total = total.plus(self.cost(entry.value))
        return total

    def comprehension(self, node: Comprehension) -> Estimate:
        """A fold: its step for each element of its range."""
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        first = self._place(node.accu_init)
        self._push(node.accu_var, _Local(first, self._size(node.accu_init), self._entries_of(node.accu_init)))
        if _is_binding(node):
            total = total.plus(self.cost(node.result))
            self._locals[node.accu_var].pop()
            self._copy(node, node.result)
            return total
        self._push_iteration(node)
        step = self.cost(node.loop_condition).plus(self.cost(node.loop_step))
        self._locals[node.iter_var].pop()
        if node.iter_var2:
            self._locals[node.iter_var2].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self._size(node.iter_range) or UNKNOWN
        if isinstance(node.accu_init, Constant):
            self._sizes[node.id] = self._size(node.accu_init) or UNKNOWN
        elif isinstance(node.accu_init, (ListLiteral, MapLiteral)):
            self._sizes[node.id] = count
            entries = self._entries_of(node.loop_step)
            if entries is not None:
                self._entries[node.id] = entries
        return total.plus(count.times(step))

    def _push_iteration(self, node: Comprehension) -> None:
        """The variables of a loop."""
        place, entries = self._place(node.iter_range), self._entries_of(node.iter_range)
        is_list = (self._types[node.iter_range.id].kind if entries is None else entries.kind) == "list"
        key, value = (entries.key, entries.value) if entries is not None else (None, None)
        if node.iter_var2:
            self._push(node.iter_var, _Local(self._step(place, "@indices" if is_list else "@keys"), key, None))
            self._push(node.iter_var2, _Local(self._step(place, "@items" if is_list else "@values"), value, None))
        elif is_list:
            self._push(node.iter_var, _Local(self._step(place, "@items"), value, None))
        else:
            self._push(node.iter_var, _Local(self._step(place, "@keys"), key, None))

    def _push(self, name: str, local: _Local) -> None:
        """A variable comes into scope."""
        self._locals.setdefault(name, []).append(local)

    def _size(self, node: Expression) -> Estimate | None:
        """The size of a node's value; None: unknown."""
        known = self._sizes.get(node.id) or _literal_size(node)
        if known is not None:
            return known
        place = self._place(node)
        if place is not None and (declared := _declared_size(place)) is not None:
            self._sizes[node.id] = declared
            return declared
        if _is_scalar(self._types.get(node.id, DYN)):
            return ONE
        local = self._local(node.name) if isinstance(node, Identifier) else None
        return None if local is None else local.size

    def _entries_of(self, node: Expression) -> _Entries | None:
        """The sizes of what a node's value holds; None: unknown."""
        known = self._entries.get(node.id)
        if known is not None:
            return known
        local = self._local(node.name) if isinstance(node, Identifier) else None
        return None if local is None else local.entries

    def _copy(self, node: Expression, source: Expression) -> None:
        """A node whose value is another's has its sizes."""
        if (size := self._size(source)) is not None:
            self._sizes[node.id] = size
        if (entries := self._entries_of(source)) is not None:
            self._entries[node.id] = entries


def _declared_size(place: Type) -> Estimate | None:
    """The size that a declaration allows; upstream gives everything whose size is not limited by its schema a size of nothing."""
    if place.max_size is not None:
        return Estimate(0, place.max_size)
    return None if place.kind in _MEASURED or place is _NOWHERE else NOTHING


def _bounded(kind: Type) -> Type:
    """A type with size zero where the size is unknown."""
    return kind if kind.max_size is not None else replace(kind, max_size=0)


def _unwrapped(kind: Type) -> Type:
    """The type of the value in an optional; any other type is returned as it is."""
    return kind.parameters[0] if kind.name == "optional_type" else kind


def _literal_size(node: Expression) -> Estimate | None:
    """The size of a literal."""
    match node:
        case Constant():
            return exactly(len(node.value)) if isinstance(node.value, (str, bytes)) else ONE
        case ListLiteral():
            return exactly(len(node.elements))
        case MapLiteral():
            return exactly(len(node.entries))
        case _:
            return None


def _is_scalar(kind: Type) -> bool:
    """Whether all values of a type are of the same size."""
    return _unwrapped(kind).kind in _SCALARS


def _joined(one: _Entries | None, other: _Entries | None) -> _Entries | None:
    """What holds both; unknown if one is."""
    if one is None or other is None:
        return None
    return _Entries(one.kind, one.key.joined(other.key), one.value.joined(other.value))


def _is_binding(node: Comprehension) -> bool:
    """Whether a fold only gives a value a name (`cel.bind`, `optMap`)."""
    never = isinstance(node.loop_condition, Constant) and node.loop_condition.value is False
    return never and isinstance(node.iter_range, ListLiteral) and not node.iter_range.elements


_COSTS: Final[dict[type[Expression], Callable[[_Estimator, Any], Estimate]]] = {
    Constant: _Estimator.constant,
    Identifier: _Estimator.identifier,
    Select: _Estimator.select,
    Call: _Estimator.call,
    ListLiteral: _Estimator.list,
    MapLiteral: _Estimator.map,
    StructLiteral: _Estimator.struct,
    Comprehension: _Estimator.comprehension,
}
