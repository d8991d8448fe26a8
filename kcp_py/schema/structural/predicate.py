"""Whether a value is valid: one closure per schema node, without paths and messages.

These closures run on every write. Where they answer no, `report` walks the value again, slower, to find the errors in upstream's words. A
property test checks that the two agree. Closures get values that are not null; their callers check for null first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.formats import find_format
from kcp_py.golang.regexp import PatternError, compile_pattern
from kcp_py.schema.structural import embedded
from kcp_py.schema.structural.listtypes import is_unique
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.values import NARROW_FORMATS, in_range, is_integral, is_multiple, type_and_format
from kcp_py.schema.structural.visitor import References

Predicate = Callable[[Any], bool]

_NEVER: Final = type("_NEVER", (), {})
"""A type that no value has: the child needs its closure."""

_SIMPLE: Final = {"string": str, "integer": int, "number": float, "boolean": bool}


class Child(NamedTuple):
    """What a container keeps of the node of a child, so that it calls nothing for most scalars."""

    kind: type
    """The type of valid values, where there is only one."""
    check: Predicate
    """The closure for values of all types."""
    null: bool
    """Whether null is valid."""
    rules: Predicate | None = None
    """What values of `kind` have to obey besides; None for nothing."""


class PredicateCompiler:
    """Makes the closures of one schema; equal nodes get the same one."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._references: References[Predicate] = References(definitions)
        self._made: dict[int, Child] = {}

    def child(self, node: Node) -> Child:
        """What a container keeps of a child."""
        if (made := self._made.get(id(node))) is None:
            made = self._made[id(node)] = self._compile(node)
        return made

    def _compile(self, node: Node) -> Child:
        if node.ref:
            return Child(_NEVER, self._references.closure(node.ref, lambda definition: self.child(definition).check), null=False)
        junctors = self._junctors(node)
        checks = (
            _type_check(node),
            *junctors,
            _for_type(str, _string_rule(node)),
            _format_check(node),
            _for_numbers(_number_rule(node)),
            self._list_check(node),
            _enum_check(node),
            self._object_check(node),
            embedded.is_valid if node.embedded else None,
            _range_check(node),
        )
        check = _all(checks) or _valid
        kind = _SIMPLE.get(node.types[0]) if len(node.types) == 1 else None
        if kind is None or not _free_format(node, kind):
            return Child(_NEVER, check, _null_valid(node))
        return Child(kind, check, _null_valid(node), _all((*junctors, _rule_of(kind, node), _enum_check(node, kind))))

    def _junctors(self, node: Node) -> list[Predicate | None]:
        return [
            *[self.child(part).check for part in node.all_of],
            _any_of([self.child(part).check for part in node.any_of]),
            _one_of([self.child(part).check for part in node.one_of]),
            None if node.negated is None else _negated(self.child(node.negated).check),
        ]

    def _list_check(self, node: Node) -> Predicate | None:
        item = None if node.items is None else self.child(node.items)
        typed = bool(node.list_type) and node.list_type != "atomic"
        minimum = node.min_items or 0
        maximum = node.max_items
        mismatch = not _is_plain(node, "array")
        if mismatch and item is None and not typed and not minimum and maximum is None:
            return None
        kind, check, null, rules = item or Child(_NEVER, _valid, null=True)
        untouched = item is None

        def check_list(value: Any) -> bool:
            if type(value) is not list:
                return mismatch
            if minimum or maximum is not None:
                size = len(value)
                if size < minimum or (maximum is not None and size > maximum):
                    return False
            if not untouched:
                for element in value:
                    if type(element) is kind:
                        if rules is None or rules(element):
                            continue
                        return False
                    if element is None:
                        if null:
                            continue
                        return False
                    if not check(element):
                        return False
            return not typed or is_unique(node, value)

        return check_list

    def _object_check(self, node: Node) -> Predicate | None:
        # A plain tuple is unpacked in half the time.
        children = {name: (*self.child(part),) for name, part in node.properties.items()}
        other = (*self.child(node.additional),) if isinstance(node.additional, Node) else None
        closed = node.additional is False
        required = frozenset(node.required)
        minimum = node.min_properties or 0
        maximum = node.max_properties
        sized = bool(minimum) or maximum is not None
        mismatch = not _is_plain(node, "object")
        if mismatch and not (children or other or closed or required or sized):
            return None
        find = children.get

        def check_object(value: Any) -> bool:
            if type(value) is not dict:
                return mismatch
            if required and not value.keys() >= required:
                return False
            if sized:
                size = len(value)
                if size < minimum or (maximum is not None and size > maximum):
                    return False
            for name, part in value.items():
                child = find(name, other)
                if child is None:
                    if closed:
                        return False
                    continue
                kind, check, null, rules = child
                if type(part) is kind:
                    if rules is None or rules(part):
                        continue
                    return False
                if part is None:
                    if null:
                        continue
                    return False
                if not check(part):
                    return False
            return True

        return check_object


def _valid(_value: Any) -> bool:
    return True


def _all(checks: Iterable[Predicate | None]) -> Predicate | None:
    """The conjunction of checks, of which some may be missing; None where there are none."""
    match [check for check in checks if check is not None]:
        case []:
            return None
        case [only]:
            return only
        case [first, second]:
            return lambda value: first(value) and second(value)
        case several:
            every = tuple(several)

            def check(value: Any) -> bool:
                for one in every:  # noqa: SIM110 - a generator would cost a frame
                    if not one(value):
                        return False
                return True

            return check


def _for_type(kind: type, rule: Predicate | None) -> Predicate | None:
    """A rule about values of one type as a check of any value."""
    return None if rule is None else lambda value: type(value) is not kind or rule(value)


def _for_numbers(rule: Predicate | None) -> Predicate | None:
    """A rule about numbers as a check of any value."""
    return None if rule is None else lambda value: (type(value) is not int and type(value) is not float) or rule(value)


def _rule_of(kind: type, node: Node) -> Predicate | None:
    """What a node demands of scalars of one type."""
    if kind is str:
        return _string_rule(node)
    return None if kind is bool else _number_rule(node)


def _null_valid(node: Node) -> bool:
    # Upstream's enumeration never contains null, and the junctors are not asked about it.
    return (not node.types or node.nullable) and not node.enum


def _is_plain(node: Node, name: str) -> bool:
    """Whether the one type is `name`, so that the closure for its contents checks the type too."""
    return node.types == (name,) and not node.format


def _free_format(node: Node, simple: type) -> bool:
    """Whether the format adds nothing for values of the one simple type."""
    if simple is str:
        return not node.format or find_format(node.format) is None
    return node.format not in NARROW_FORMATS if simple is int else not node.format


def _type_check(node: Node) -> Predicate | None:
    types, name = node.types, node.format
    if (not types and not name) or _is_plain(node, "object") or _is_plain(node, "array"):
        return None
    if name and not ("number" in types or "integer" in types):
        if node.typed:
            return lambda value: type(value) is str or (type(value) is not list and type_matches(types, name, value))
        return lambda value: type(value) is str or type(value) is list or type_matches(types, name, value)
    match types:
        case ("object",):
            return lambda value: type(value) is dict
        case ("array",):
            return lambda value: type(value) is list
        case ("string",):
            return lambda value: type(value) is str
        case ("boolean",):
            return lambda value: type(value) is bool
        case ("integer",):
            return lambda value: type(value) is int or (type(value) is float and is_integral(value))
        case ("number",):
            return lambda value: type(value) is int or type(value) is float
        case ("integer", "string"):
            return lambda value: type(value) is str or type(value) is int or (type(value) is float and is_integral(value))
        case _:
            return lambda value: type_matches(types, name, value)


def type_matches(types: tuple[str, ...], name: str, value: Any) -> bool:
    """Upstream's type rule in full, for a value that is not null; `name` is the format, which takes part in it."""
    return not type_problem(types, name, value)


def type_problem(types: tuple[str, ...], name: str, value: Any) -> tuple[str, str] | None:
    """None, or what the value had to be and what it is."""
    kind, kind_format = type_and_format(value)
    numeric = "number" in types or "integer" in types
    whole = kind == "number" and "integer" in types and is_integral(value)
    widened = kind == "integer" and "number" in types
    composite = kind in {"string", "array"}
    if not composite and name and not (kind in types or kind_format == name or whole or widened):
        return (name, kind_format)
    if composite and name and not numeric:
        return None
    if not (kind in types or whole or widened):
        return (",".join(types), kind)
    return None


def _any_of(checks: list[Predicate]) -> Predicate | None:
    if not checks:
        return None
    every = tuple(checks)

    def check(value: Any) -> bool:
        for one in every:  # noqa: SIM110 - a generator would cost a frame
            if one(value):
                return True
        return False

    return check


def _one_of(checks: list[Predicate]) -> Predicate | None:
    if not checks:
        return None
    every = tuple(checks)

    def check(value: Any) -> bool:
        found = False
        for one in every:
            if one(value):
                if found:
                    return False
                found = True
        return found

    return check


def _negated(check: Predicate) -> Predicate:
    return lambda value: not check(value)


def _string_rule(node: Node) -> Callable[[str], bool] | None:
    minimum, maximum = node.min_length or 0, node.max_length
    if not (minimum or maximum is not None or node.pattern):
        return None
    found = _finder(node.pattern) if node.pattern else None
    if found is None and maximum is not None and not minimum:
        return lambda text: len(text) <= maximum
    if found is None:
        return lambda text: len(text) >= minimum and (maximum is None or len(text) <= maximum)
    if not minimum and maximum is None:
        return found
    return lambda text: len(text) >= minimum and (maximum is None or len(text) <= maximum) and found(text)


def _finder(pattern: str) -> Callable[[str], bool]:
    try:
        return compile_pattern(pattern)
    except PatternError:
        # Nothing matches it; the report says why.
        return lambda _text: False


def _format_check(node: Node) -> Predicate | None:
    return _for_type(str, find_format(node.format) if node.format else None)


def _number_rule(node: Node) -> Callable[[float], bool] | None:
    checks: list[Predicate] = []
    kind, name = number_kind(node), node.format
    limits = (node.multiple_of, node.minimum, node.maximum)
    if not all(limit is None or in_range(limit, kind, name) for limit in limits):
        # Upstream finds fault with the limit whenever it looks at a number.
        return lambda _number: False
    if (factor := node.multiple_of) is not None:
        checks.append(lambda value: is_multiple(value, factor))
    if node.minimum is not None:
        checks.append(_limit_check(node.minimum, operator.gt if node.exclusive_minimum else operator.ge))
    if node.maximum is not None:
        checks.append(_limit_check(node.maximum, operator.lt if node.exclusive_maximum else operator.le))
    return _all(checks)


def _limit_check(limit: float, compare: Callable[[float, float], bool]) -> Predicate:
    """The comparison of a number with a limit, see `bound`."""
    for_int, for_float = bound(0, limit), bound(0.0, limit)
    return lambda number: compare(number, for_int if type(number) is int else for_float)


def _range_check(node: Node) -> Predicate | None:
    kind, name = number_kind(node), node.format
    if kind != "integer" and name not in {"float", "float32"}:
        return None
    return _for_numbers(lambda number: in_range(number, kind, name))


def number_kind(node: Node) -> str:
    """The type whose capacity numbers are checked for."""
    return node.types[0] if len(node.types) == 1 else ""


def bound(value: float, limit: float) -> float:
    """A limit as upstream compares it: cut to an integer where the value is one, a double where it is not."""
    return int(limit) if type(value) is int else float(limit)


def _enum_check(node: Node, kind: type | None = None) -> Predicate | None:
    """Whether a value is one of those listed. `kind` is the type of all values that are asked about, where it is known."""
    choices = node.enum
    if not choices:
        return None
    if all(type(choice) is str for choice in choices):
        texts = frozenset(choices)
        if kind is str:
            return texts.__contains__
        return lambda value: type(value) is str and value in texts
    # A value may have to be looked for among a hundred thousand: only containers are compared one by one.
    scalars = frozenset((type(choice) is bool, choice) for choice in choices if type(choice) is not dict and type(choice) is not list)
    containers = tuple(choice for choice in choices if type(choice) is dict or type(choice) is list)

    def check(value: Any) -> bool:
        kind = type(value)
        if kind is dict or kind is list:
            return any(equal(value, choice) for choice in containers)
        return (kind is bool, value) in scalars

    return check
