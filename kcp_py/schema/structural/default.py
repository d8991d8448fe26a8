"""Dropping nulls where null is not allowed, and filling defaults: one closure per node, in place, in one pass.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm.go` and `prunenulls.go`. Upstream makes two
passes; one gives the same, because a default that is filled in was itself checked to hold no null that would be dropped.

Defaults of the items of lists and of defaults themselves multiply: a small schema and a small object can ask for more than any memory
holds. So the characters that are filled in are counted and limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.schema.structural.nodes import NO_DEFAULT, Node
from kcp_py.schema.structural.prune import Pruner
from kcp_py.schema.structural.visitor import References

MAX_FILLED: Final = 4 * 1024 * 1024
"""Characters, about, that defaults may add to one object. Bodies have three million at most."""


class TooManyDefaultsError(ValueError):
    """The defaults of a schema would make an object larger than was allowed. It is filled in part: filling may be continued."""

    def __init__(self) -> None:
        super().__init__("the defaults of the schema make the object too large")


class Allowance:
    """How much may still be filled in."""

    __slots__ = ("left",)

    def __init__(self, characters: int) -> None:
        self.left = characters

    def take(self, characters: int) -> None:
        """Count a default that is about to be filled in.

        Raises:
            TooManyDefaultsError: there is no room for it.
        """
        if characters > self.left:
            raise TooManyDefaultsError
        self.left -= characters


Filler = Callable[[Any, Allowance], None]

_MAX_EXACT: Final = 2**53
_FEW: Final = 5
"""Children that are looked up one by one, rather than looking for a child for each field."""


class DefaultCompiler:
    """Makes the closures of one schema."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._references: References[Filler] = References(definitions)
        self._made: dict[int, Filler | None] = {}

    def filler(self, node: Node) -> Filler | None:
        """The closure of a node, or None where the values of the node are left alone."""
        if node.ref:
            return self._references.closure(node.ref, lambda definition: self.filler(definition) or _leave)
        key = id(node)
        if key not in self._made:
            self._made[key] = self.compile(node)
        return self._made[key]

    def compile(self, node: Node, skip: frozenset[str] = frozenset()) -> Filler | None:
        """The closure of a node whose fields in `skip` are left alone."""
        properties = {name: part for name, part in node.properties.items() if name not in skip}
        other = node.additional if isinstance(node.additional, Node) else None
        fill_object = self._object_filler(properties, other) if properties or other else None
        fill_list = self._list_filler(node.items) if node.items is not None else None
        if fill_object is None:
            return fill_list
        if fill_list is None:
            return fill_object

        def fill(value: Any, allowance: Allowance) -> None:
            fill_object(value, allowance)
            fill_list(value, allowance)

        return fill

    def _default(self, node: Node) -> Any:
        """The default of a node as it is filled in: the metadata of embedded resources in it has known fields only."""
        if type(node.default) is float and node.default.is_integer() and abs(node.default) < _MAX_EXACT:
            # Go writes the definition without the fraction, and reads an integer.
            return int(node.default)
        if type(node.default) is not dict and type(node.default) is not list:
            return node.default
        value = copy_value(node.default)
        Pruner(self._definitions).prune(node, value)
        return value

    def _object_filler(self, properties: Mapping[str, Node], other: Node | None) -> Filler:
        values = {name: self._default(part) for name, part in properties.items() if part.default is not NO_DEFAULT}
        defaults = [(name, value, _copier(value), len(name) + _size(value)) for name, value in values.items()]
        names = frozenset(values)
        other_default = NO_DEFAULT if other is None else self._default(other)
        fillers = {name: self.filler(part) for name, part in properties.items()}
        children = {name: child for name, child in fillers.items() if child is not None}
        find_child = fillers.get
        other_child = self.filler(other) if other is not None else None
        few = tuple(children.items()) if other_child is None and len(children) <= _FEW else None

        def drop_nulls(value: dict[str, Any], allowance: Allowance) -> None:
            for name in [name for name, part in value.items() if part is None]:
                part = properties.get(name, other)
                if part is None or part.nullable or part.ref:
                    continue
                default = values.get(name, NO_DEFAULT) if name in properties else other_default
                if default is NO_DEFAULT:
                    del value[name]
                else:
                    allowance.take(_size(default))
                    value[name] = copy_value(default)

        def fill(value: Any, allowance: Allowance) -> None:
            if type(value) is not dict:
                return
            if None in value.values():
                drop_nulls(value, allowance)
            if names and not value.keys() >= names:
                for name, default, copy, size in defaults:
                    if name not in value:
                        if size > allowance.left:
                            raise TooManyDefaultsError
                        allowance.left -= size
                        value[name] = default if copy is None else copy(default)
            if few is not None:
                for name, filler in few:
                    if (part := value.get(name)) is not None:
                        filler(part, allowance)
                return
            for name, part in value.items():
                kind = type(part)
                if (kind is dict or kind is list) and (child := find_child(name, other_child)) is not None:
                    child(part, allowance)

        return fill

    def _list_filler(self, item: Node) -> Filler | None:
        child = self.filler(item)
        default = self._default(item)
        replace = default is not NO_DEFAULT and not item.nullable
        if child is None and not replace:
            return None
        size = _size(default) if replace else 0

        def fill(value: Any, allowance: Allowance) -> None:
            if type(value) is not list:
                return
            if replace and None in value:
                for index, part in enumerate(value):
                    if part is None:
                        allowance.take(size)
                        value[index] = copy_value(default)
            if child is not None:
                for part in value:
                    if type(part) is dict or type(part) is list:
                        child(part, allowance)

        return fill


def _leave(_value: Any, _allowance: Allowance) -> None:
    return


def _copier(value: Any) -> Callable[[Any], Any] | None:
    """How to copy a default: None where it cannot be changed in place."""
    return copy_value if type(value) is dict or type(value) is list else None


def copy_value(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {name: copy_value(part) for name, part in value.items()}
    if type(value) is list:
        return [copy_value(part) for part in value]
    return value


def _size(value: Any) -> int:
    """About the characters of a default's JSON; a container of nothing counts too, so that every one that is made is counted."""
    kind = type(value)
    if kind is dict:
        return 8 + sum(len(name) + _size(part) for name, part in value.items())
    if kind is list:
        return 8 + sum(map(_size, value))
    return 8 + len(value) if kind is str else 8
