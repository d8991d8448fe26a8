"""Objects that pruning and defaults leave as they are, and that are valid: one look at the body of an update finds all that out together.

Most updates send back what a client has read, with another value here and there. A schema is compiled once more for them, into closures
that answer for `prune`, `default` and `validate` in one pass. They say yes only where that is plain from the node and the value alone.
Null is left to the three passes, and so are maps and lists that preserve fields, embed resources, have logical junctors or refer to
definitions.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from kcp_py.golang.regexp import SearchTooLongError, free_searches, searches
from kcp_py.schema.structural.listtypes import is_unique
from kcp_py.schema.structural.nodes import META_FIELDS, NO_DEFAULT, Node
from kcp_py.schema.structural.predicate import Predicate, PredicateCompiler
from kcp_py.schema.structural.visitor import nodes_of

Part = tuple[type, Predicate | None, Predicate]
"""The usual type of values, the rules for values of that type (None: there are none), and the check of all others."""

MAX_NODES: Final = 500
"""Nodes of a schema. Their closures are compiled on the event loop once, in about 5 us each."""

_ABSENT: Final = object()


class Settler:
    """The closures of one schema. Pure: it reads objects and changes nothing."""

    __slots__ = ("_counts", "_filled", "_find", "_find_valid", "_required")

    def __init__(self, root: Node, predicates: PredicateCompiler) -> None:
        """Compile a schema for which `can_settle` holds; `predicates` has the closures that validate."""
        compiler = _Compiler(predicates)
        names = root.properties.keys() - META_FIELDS
        self._find: Final = {name: compiler.part(root.properties[name]) for name in names}.get
        self._filled: Final = frozenset(name for name in names if root.properties[name].default is not NO_DEFAULT)
        self._find_valid: Final = {name: predicates.child(part).check for name, part in root.properties.items()}.get
        self._required: Final = frozenset(root.required)
        self._counts: Final = _counts(root)

    def settled(self, obj: dict[str, Any]) -> dict[str, Any] | None:
        """The parts of a decoded object, without apiVersion, kind and metadata; None where they may be invalid, pruned or filled in.

        No search takes long enough to be counted, so that all of `golang.regexp.searches` is left for the rest of the object.
        """
        try:
            return free_searches(self._settled, obj)
        except SearchTooLongError:
            return None

    def _settled(self, obj: dict[str, Any]) -> dict[str, Any] | None:
        if not obj.keys() >= self._filled:
            return None
        find = self._find
        parts: dict[str, Any] = {}
        for name, value in obj.items():
            if name in META_FIELDS:
                continue
            part = find(name)
            if part is None:
                return None
            kind, rules, check = part
            if not (rules is None or rules(value) if type(value) is kind else check(value)):
                return None
            parts[name] = value
        return parts

    def is_valid(self, obj: dict[str, Any], parts: dict[str, Any]) -> bool:
        """Whether an object is valid that has parts which were found by `settled` and not changed since. False says nothing.

        Other parts of it, such as the status of the stored object, are checked.
        """
        if not obj.keys() >= self._required or (self._counts is not None and not self._counts(obj)):
            return False
        find, known = self._find_valid, parts.get
        for name, value in obj.items():
            if known(name, _ABSENT) is not value and find(name) is not None:
                return self._are_others_valid(obj, parts)
        return True

    def _are_others_valid(self, obj: dict[str, Any], parts: dict[str, Any]) -> bool:
        find, known = self._find_valid, parts.get
        try:
            with searches():
                for name, value in obj.items():
                    check = find(name)
                    if check is not None and known(name, _ABSENT) is not value and (value is None or not check(value)):
                        return False
        except SearchTooLongError:
            return False
        return True


def can_settle(root: Node) -> bool:
    """Whether a `Settler` can be made of a schema of custom resources. One of a large schema would take long to compile."""
    return _is_plain(root, "object") and root.additional is None and next(islice(nodes_of(root), MAX_NODES, None), None) is None


class _Compiler:
    """Makes the closures; equal nodes get the same one."""

    def __init__(self, predicates: PredicateCompiler) -> None:
        self._predicates = predicates
        self._made: dict[int, Part] = {}

    def part(self, node: Node) -> Part:
        """What a container keeps of a child."""
        if (made := self._made.get(id(node))) is None:
            made = self._made[id(node)] = self._compile(node)
        return made

    def _compile(self, node: Node) -> Part:
        if node.ref:
            return type(None), _unknown, _unknown
        if _is_plain(node, "object"):
            return dict, self._object(node), _unknown
        if _is_plain(node, "array") and node.items is not None:
            return list, self._list(node, node.items), _unknown
        kind, check, _, rules = self._predicates.child(node)
        return kind, rules, _for_scalars(check)

    def _object(self, node: Node) -> Predicate:
        find = {name: self.part(part) for name, part in node.properties.items()}.get
        other = self.part(node.additional) if isinstance(node.additional, Node) else None
        filled = [name for name, part in node.properties.items() if part.default is not NO_DEFAULT]
        needed = frozenset((*node.required, *filled))
        counts = _counts(node)

        def is_settled(value: dict[str, Any]) -> bool:
            if needed and not value.keys() >= needed:
                return False
            if counts is not None and not counts(value):
                return False
            for name, item in value.items():
                part = find(name, other)
                if part is None:
                    return False
                kind, rules, check = part
                if type(item) is kind:
                    if rules is not None and not rules(item):
                        return False
                elif not check(item):
                    return False
            return True

        return is_settled

    def _list(self, node: Node, items: Node) -> Predicate:
        kind, rules, check = self.part(items)
        typed = bool(node.list_type) and node.list_type != "atomic"
        minimum, maximum = node.min_items or 0, node.max_items

        def is_settled(value: list[Any]) -> bool:
            if len(value) < minimum or (maximum is not None and len(value) > maximum):
                return False
            for item in value:
                if type(item) is kind:
                    if rules is not None and not rules(item):
                        return False
                elif not check(item):
                    return False
            return not typed or is_unique(node, value)

        return is_settled


def _is_plain(node: Node, name: str) -> bool:
    """Whether a node is about containers of one type, and nothing but their parts and their number decides about them."""
    junctors = node.all_of or node.any_of or node.one_of or node.negated is not None
    return node.types == (name,) and not (node.ref or node.format or node.enum or junctors or node.preserve or node.embedded)


def _counts(node: Node) -> Predicate | None:
    """The check of the number of fields of a map; None where any will do."""
    minimum, maximum = node.min_properties or 0, node.max_properties
    return (lambda value: minimum <= len(value) and (maximum is None or len(value) <= maximum)) if minimum or maximum is not None else None


def _for_scalars(check: Predicate) -> Predicate:
    """A check that leaves maps, lists and null to others."""
    return lambda value: value is not None and type(value) is not dict and type(value) is not list and check(value)


def _unknown(_value: Any) -> bool:
    return False
