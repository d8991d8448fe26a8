"""Whether a value is valid: one closure per schema node, without paths and messages.

These closures run on every write. Where they answer no, `report` walks the value again, slower, to find the errors in upstream's words. A
property test checks that the two agree. Closures get values that are not null; their callers check for null first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

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

_SIMPLE: Final = {"string": str, "integer": int, "boolean": bool}

Child = tuple[type, Predicate, bool]
"""The type that alone makes a value valid; the closure for the others; whether null is valid."""


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
            return (_NEVER, self._references.closure(node.ref, lambda definition: self.child(definition)[1]), False)
        constraints = [check for check in self._constraints(node) if check is not None]
        checks = [check for check in (_type_check(node), *constraints, _range_check(node)) if check is not None]
        simple = _SIMPLE.get(node.types[0]) if len(node.types) == 1 and not constraints else None
        fast = simple if simple is not None and _free_format(node, simple) else _NEVER
        return (fast, _all(checks), _null_valid(node))

    def _constraints(self, node: Node) -> list[Predicate | None]:
        return [
            *[self.child(part)[1] for part in node.all_of],
            _any_of([self.child(part)[1] for part in node.any_of]),
            _one_of([self.child(part)[1] for part in node.one_of]),
            None if node.negated is None else _negated(self.child(node.negated)[1]),
            _string_check(node),
            _format_check(node),
            _number_check(node),
            self._list_check(node),
            _enum_check(node),
            self._object_check(node),
            embedded.is_valid if node.embedded else None,
        ]

    def _list_check(self, node: Node) -> Predicate | None:
        item = None if node.items is None else self.child(node.items)
        typed = bool(node.list_type) and node.list_type != "atomic"
        minimum = node.min_items or 0
        maximum = node.max_items
        mismatch = not _is_plain(node, "array")
        if mismatch and item is None and not typed and not minimum and maximum is None:
            return None
        fast, check, null = item or (object, _valid, True)
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
                    if type(element) is fast:
                        continue
                    if element is None:
                        if null:
                            continue
                        return False
                    if not check(element):
                        return False
            return not typed or is_unique(node, value)

        return check_list

    def _object_check(self, node: Node) -> Predicate | None:
        children = {name: self.child(part) for name, part in node.properties.items()}
        other = self.child(node.additional) if isinstance(node.additional, Node) else None
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
                fast, check, null = child
                if type(part) is fast:
                    continue
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


def _all(checks: list[Predicate]) -> Predicate:
    match checks:
        case []:
            return _valid
        case [only]:
            return only
        case [first, second]:
            return lambda value: first(value) and second(value)
        case _:
            every = tuple(checks)

            def check(value: Any) -> bool:
                for one in every:  # noqa: SIM110 - a generator would cost a frame
                    if not one(value):
                        return False
                return True

            return check


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


def _string_check(node: Node) -> Predicate | None:
    minimum, maximum = node.min_length or 0, node.max_length
    if not (minimum or maximum is not None or node.pattern):
        return None
    found = _finder(node.pattern) if node.pattern else None
    if found is None:
        return lambda value: type(value) is not str or (len(value) >= minimum and (maximum is None or len(value) <= maximum))
    if not minimum and maximum is None:
        return lambda value: type(value) is not str or found(value)
    return lambda value: type(value) is not str or (len(value) >= minimum and (maximum is None or len(value) <= maximum) and found(value))


def _finder(pattern: str) -> Callable[[str], bool]:
    try:
        return compile_pattern(pattern)
    except PatternError:
        # Nothing matches it; the report says why.
        return lambda _text: False


def _format_check(node: Node) -> Predicate | None:
    rule = find_format(node.format) if node.format else None
    if rule is None:
        return None
    return lambda value: type(value) is not str or rule(value)


def _number_check(node: Node) -> Predicate | None:
    checks: list[Predicate] = []
    kind, name = number_kind(node), node.format
    limits = (node.multiple_of, node.minimum, node.maximum)
    if not all(limit is None or in_range(limit, kind, name) for limit in limits):
        # Upstream finds fault with the limit whenever it looks at a number.
        return lambda value: type(value) is not int and type(value) is not float
    if (factor := node.multiple_of) is not None:
        checks.append(lambda value: is_multiple(value, factor))
    if (minimum := node.minimum) is not None:
        compare_minimum = operator.gt if node.exclusive_minimum else operator.ge
        checks.append(lambda value: compare_minimum(value, bound(value, minimum)))
    if (maximum := node.maximum) is not None:
        compare_maximum = operator.lt if node.exclusive_maximum else operator.le
        checks.append(lambda value: compare_maximum(value, bound(value, maximum)))
    if not checks:
        return None
    within = _all(checks)
    return lambda value: (type(value) is not int and type(value) is not float) or within(value)


def _range_check(node: Node) -> Predicate | None:
    kind, name = number_kind(node), node.format
    if kind != "integer" and name not in {"float", "float32"}:
        return None
    return lambda value: (type(value) is not int and type(value) is not float) or in_range(value, kind, name)


def number_kind(node: Node) -> str:
    """The type whose capacity numbers are checked for."""
    return node.types[0] if len(node.types) == 1 else ""


def bound(value: float, limit: float) -> float:
    """A limit as upstream compares it: cut to an integer where the value is one, a double where it is not."""
    return int(limit) if type(value) is int else float(limit)


def _enum_check(node: Node) -> Predicate | None:
    choices = node.enum
    if not choices:
        return None
    if all(type(choice) is str for choice in choices):
        texts = frozenset(choices)
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
