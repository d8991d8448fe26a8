"""Tree -> types: every node gets one, every name and call what it stands for (cel-go `checker/checker.go`).

Errors are collected, not raised at the first: a node that has one is of the type `error`, which fits everywhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import operators
from kcp_py.cel.checked import Checked
from kcp_py.cel.errors import CompileError, Issue, Issues, too_deep
from kcp_py.cel.literals import literal_issues
from kcp_py.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Select,
    StructLiteral,
    qualified_name,
)
from kcp_py.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from kcp_py.cel.unification import Substitution, TypeTooLargeError
from kcp_py.cel.values import UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcp_py.cel.declarations import Function, Overload
    from kcp_py.cel.environment import Environment
    from kcp_py.cel.syntax import Expression

__all__ = ["check"]

_ANYTHING: Final = frozenset({"dyn", "error"})
_UNKNOWN: Final = frozenset({"dyn", "error", "parameter"})
_KUBERNETES: Final = "kubernetes."
"""The beginning of the names of opaque types that upstream declares as objects without registering their fields."""


def check(text: str, root: Expression, environment: Environment) -> Checked:
    """Type-check a tree. Calls of functions with qualified names (`optional.of`) are turned, in place, into global calls.

    Args:
        text: the source, for reports.
        root: what `parser.parse` made of it.
        environment: what the expression may use.

    Raises:
        CompileError: with the issues, in the order of their places.
    """
    checker = _Checker(environment)
    issues = checker.issues
    try:
        checker.visit(root)
        checked = Checked(text, environment, root, checker.final_types(), checker.overloads, checker.names)
        if not issues:
            for issue in literal_issues(checked):
                issues.add(issue.message, issue.position)
    except RecursionError as error:
        raise too_deep(text) from error
    except TypeTooLargeError as error:
        raise CompileError(text, (Issue("expression type complexity limit exceeded", 0),)) from error
    if issues:
        raise issues.error(text)
    return checked


class _Checker:
    """One run over one tree."""

    __slots__ = ("_environment", "_scopes", "_substitution", "_types", "issues", "names", "overloads")

    def __init__(self, environment: Environment) -> None:
        """Begin with the environment's variables."""
        self._environment = environment
        self._scopes: list[dict[str, Type]] = [dict(environment.variables)]
        self._substitution = Substitution()
        self._types: dict[int, Type] = {}
        self.issues = Issues()
        self.names: dict[int, str] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}

    def final_types(self) -> dict[int, Type]:
        """The type of each node, with what stayed unknown as `dyn`."""
        return {number: self._substitution.of(kind, free_as_dyn=True) for number, kind in self._types.items()}

    def visit(self, node: Expression) -> Type:
        """Find a node's type and keep it."""
        kind = self._substitution.checked(_VISITORS[type(node)](self, node))
        self._types[node.id] = kind
        return kind

    def _fail(self, node: Expression, message: str | Callable[[], str]) -> Type:
        """Note an issue; the node's type is then `error`. Messages that name types, which may be large, are written only where shown."""
        self.issues.add(message, node.position)
        return ERROR

    def constant(self, node: Constant) -> Type:
        """A literal is of the type of its value."""
        return _LITERALS[type(node.value)]

    def identifier(self, node: Identifier) -> Type:
        """A variable, or a type's name."""
        kind = self._named(node, node.name)
        return kind if kind is not None else self._fail(node, f"undeclared reference to '{node.name.lstrip('.')}' (in container '')")

    def _named(self, node: Expression, name: str) -> Type | None:
        """The type of a possibly qualified name, which is then kept for the node; None: it names nothing."""
        scopes = self._scopes
        if name.startswith("."):
            name, scopes = name[1:], self._scopes[:1]
        for scope in reversed(scopes):
            if name in scope:
                self.names[node.id] = name
                return scope[name]
        kind = self._environment.types.get(name)
        if kind is None:
            return None
        self.names[node.id] = name
        return type_of(kind)

    def select(self, node: Select) -> Type:
        """A field, unless the whole chain is a qualified name."""
        qualified = None if node.test_only else qualified_name(node)
        if qualified is not None and not self._is_local(qualified) and (kind := self._named(node, qualified)) is not None:
            return kind
        kind = self._field(node, self.visit(node.operand), node.field)
        return BOOL if node.test_only else kind

    def _is_local(self, qualified: str) -> bool:
        """Whether a chain of names begins with a loop's variable, which hides whatever is declared under longer names."""
        first = qualified.partition(".")[0]
        return any(first in scope for scope in self._scopes[1:])

    def _field(self, node: Expression, operand: Type, field: str) -> Type:
        """What a selection from a value of type `operand` gives; of an optional, an optional."""
        operand = self._substitution.of(operand)
        if operand.name == "optional_type":
            return optional_of(_unwrapped(self._field(node, operand.parameters[0], field)))
        match operand.kind:
            case "map":
                return operand.value
            case "object":
                found = (operand.fields or {}).get(field)
                return found.type if found is not None else self._fail(node, f"undefined field '{field}'")
            case "dyn" | "error":
                return DYN
            case "parameter":
                self._substitution.assign((DYN,), (operand,))
                return DYN
            case "opaque" if operand.name.startswith(_KUBERNETES):
                return self._fail(node, f"unexpected failed resolution of '{operand.name}'")
            case _:
                return self._fail(node, lambda: f"type '{operand}' does not support field selection")

    def call(self, node: Call) -> Type:
        """A function with the types of its arguments."""
        if node.function == operators.OPTIONAL_SELECT and node.function in self._environment.functions:
            return self._optional_select(node)
        if node.target is not None and (prefix := qualified_name(node.target)) is not None:
            qualified = f"{prefix.lstrip('.')}.{node.function}"
            if qualified in self._environment.functions:
                node.function, node.target = qualified, None
        arguments = [self.visit(argument) for argument in (node.args if node.target is None else (node.target, *node.args))]
        function = self._environment.functions.get(node.function.lstrip("."))
        if function is None:
            return self._fail(node, f"undeclared reference to '{node.function.lstrip('.')}' (in container '')")
        return self._resolve(node, function, arguments)

    def _optional_select(self, node: Call) -> Type:
        """`operand.?field`."""
        operand, field = node.args
        kind = self.visit(operand)
        self._types[field.id] = STRING
        assert isinstance(field, Constant)
        self.overloads[node.id] = self._environment.functions[node.function].overloads
        return optional_of(_unwrapped(self._field(node, kind, str(field.value))))

    def _resolve(self, node: Call, function: Function, arguments: Sequence[Type]) -> Type:
        """Keep the overloads that fit, and join their results."""
        member = node.target is not None
        fitting: list[Overload] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.member != member or len(overload.parameters) != len(arguments):
                continue
            *parameters, kind = self._substitution.instance((*overload.parameters, overload.result))
            if not self._substitution.assign(arguments, parameters):
                continue
            fitting.append(overload)
            kind = self._substitution.of(kind)
            if result is None:
                result = kind
            elif result.kind != "dyn" and kind != result:
                result = DYN
        if result is None:
            return self._fail(node, lambda: self._mismatch(function.name, arguments, member=member))
        self.overloads[node.id] = tuple(fitting)
        return result

    def _mismatch(self, function: str, arguments: Sequence[Type], *, member: bool) -> str:
        """The message about a call that fits no overload."""
        shown = [str(self._substitution.of(kind, free_as_dyn=True)) for kind in arguments]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return f"found no matching overload for '{function}' applied to '{applied}'"

    def list(self, node: ListLiteral) -> Type:
        """All elements of one type, or of `dyn`."""
        element: Type | None = None
        optional = frozenset(node.optional_indices)
        for index, item in enumerate(node.elements):
            kind = self.visit(item)
            if index in optional:
                kind = self._of_optional(item, kind)
            element = self._substitution.join(element, kind)
        return list_of(element or self._substitution.variable())

    def map(self, node: MapLiteral) -> Type:
        """All keys of one type and all values of one, or of `dyn`."""
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._substitution.join(key, self.visit(entry.key))
            kind = self.visit(entry.value)
            if entry.optional:
                kind = self._of_optional(entry.value, kind)
            value = self._substitution.join(value, kind)
        return map_of(key or self._substitution.variable(), value or self._substitution.variable())

    def _of_optional(self, node: Expression, kind: Type) -> Type:
        """The type inside an element written with `?`."""
        kind = self._substitution.of(kind)
        if kind.name == "optional_type":
            return kind.parameters[0]
        if kind.kind in _ANYTHING:
            return DYN
        return self._fail(node, lambda: f"expected type '{optional_of(kind)}' but found '{kind}'")

    def struct(self, node: StructLiteral) -> Type:
        """An object of a type that the environment names."""
        kind = self._environment.types.get(node.name.lstrip("."))
        given = [(entry, self.visit(entry.value)) for entry in node.entries]
        if kind is None:
            return self._fail(node, f"undeclared reference to '{node.name.lstrip('.')}' (in container '')")
        if kind.kind != "object":
            return self._fail(node, f"'{node.name.lstrip('.')}' is not a message type")
        for entry, value in given:
            field = (kind.fields or {}).get(entry.field)
            if field is None:
                self.issues.add(f"undefined field '{entry.field}'", entry.position)
                continue
            inner = self._of_optional(entry.value, value) if entry.optional else value
            if not self._substitution.assign((inner,), (field.type,)):
                self.issues.add(partial(self._unfit, entry.field, field.type, inner), entry.position)
        return kind

    def _unfit(self, field: str, wanted: Type, found: Type) -> str:
        """The message about a value that a field cannot hold."""
        provided = self._substitution.of(found, free_as_dyn=True)
        return f"expected type of field '{field}' is '{wanted}' but provided type is '{provided}'"

    def comprehension(self, node: Comprehension) -> Type:
        """A fold: the accumulator keeps its type, the condition is a bool."""
        walked = self._substitution.of(self.visit(node.iter_range))
        accumulator = self.visit(node.accu_init)
        first, second = self._loop_types(node, walked)
        self._scopes.append({node.accu_var: accumulator})
        self._scopes.append({node.iter_var: first} | ({node.iter_var2: second} if node.iter_var2 else {}))
        self._assert(node.loop_condition, self.visit(node.loop_condition), BOOL)
        self._assert(node.loop_step, self.visit(node.loop_step), accumulator)
        self._scopes.pop()
        result = self.visit(node.result)
        self._scopes.pop()
        return self._substitution.of(result)

    def _loop_types(self, node: Comprehension, walked: Type) -> tuple[Type, Type]:
        """The types of the loop's variables."""
        if walked.kind == "list":
            return (INT, walked.element) if node.iter_var2 else (walked.element, DYN)
        if walked.kind == "map":
            return walked.key, walked.value
        if walked.kind in _UNKNOWN:
            if walked.kind == "parameter":
                self._substitution.assign((DYN,), (walked,))
            return DYN, DYN
        message = "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._fail(node.iter_range, lambda: message.format(walked))
        return ERROR, ERROR

    def _assert(self, node: Expression, found: Type, wanted: Type) -> None:
        """A type that is given by the language."""
        if not self._substitution.assign((found,), (wanted,)):
            of = partial(self._substitution.of, free_as_dyn=True)
            self._fail(node, lambda: f"expected type '{of(wanted)}' but found '{of(found)}'")


def _unwrapped(kind: Type) -> Type:
    """An optional of an optional is one optional."""
    return kind.parameters[0] if kind.name == "optional_type" else kind


_VISITORS: Final[dict[type[Expression], Callable[[_Checker, Any], Type]]] = {
    Constant: _Checker.constant,
    Identifier: _Checker.identifier,
    Select: _Checker.select,
    Call: _Checker.call,
    ListLiteral: _Checker.list,
    MapLiteral: _Checker.map,
    StructLiteral: _Checker.struct,
    Comprehension: _Checker.comprehension,
}
_LITERALS: Final[dict[type, Type]] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
}
