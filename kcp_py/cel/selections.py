"""Selections: fields of objects, entries of maps, and both of optionals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel import costs, runtime
from kcp_py.cel.adaptation import adapter
from kcp_py.cel.syntax import Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.emission import Emission
    from kcp_py.cel.syntax import Call, Select
    from kcp_py.cel.types import Type

__all__ = ["emit_optional_select", "emit_select"]

# Kinds whose values may take long to adapt, so that each selection is paid for by their size.
_LARGE: Final = frozenset({"list", "map", "bytes"})


def emit_select(code: Emission, node: Select) -> str:
    """A field of a dict; of a declared object its key, which may be spelled otherwise."""
    name = code.checked.names.get(node.id)
    if name is not None:
        return code.name(name)
    kind = code.types[node.operand.id]
    operand = code.emit(node.operand)
    if kind.name == "optional_type":
        if node.test_only:
            key, _, more = _key(kind, node.field)
            return f"{code.constant(runtime.has_optional)}({operand}, {key!r}{more})"
        return _optional_selection(code, kind, operand, node.field)
    if kind.kind == "object" and kind.fields is not None and node.field in kind.fields:
        field = kind.fields[node.field]
        if node.test_only:
            return f"({operand}.get({field.key!r}) is not None)" if field.nullable else f"({field.key!r} in {operand})"
        text = f"{operand}[{field.key!r}]"
        if field.nullable:
            text = f"{code.constant(runtime.select_nullable)}({operand}, {field.key!r})"
        adapt = adapter(field.type)
        if adapt is not None and field.type.kind in _LARGE:
            return f"charged(B, {code.constant(costs.adaptation_cost)}, {code.constant(adapt)}, {text})"
        return text if adapt is None else f"{code.constant(adapt)}({text})"
    if kind.kind == "map":
        return f"({node.field!r} in {operand})" if node.test_only else f"{operand}[{node.field!r}]"
    return f"{code.constant(runtime.has_dynamic if node.test_only else runtime.select_dynamic)}({operand}, {node.field!r})"


def emit_optional_select(code: Emission, node: Call) -> str:
    """`operand.?field`."""
    operand, name = node.args
    assert isinstance(name, Constant)
    return _optional_selection(code, code.types[operand.id], code.emit(operand), str(name.value))


def _optional_selection(code: Emission, kind: Type, operand: str, field: str) -> str:
    """A selection that gives an optional."""
    key, adapt, more = _key(kind, field)
    if adapt is not None:
        more = f", lambda value: charged(B, {code.constant(costs.adaptation_cost)}, {code.constant(adapt)}, value){more}"
    code.cost += 1
    return f"{code.constant(runtime.optional_select)}({operand}, {key!r}{more})"


def _key(kind: Type, field: str) -> tuple[str, Callable[[Any], Any] | None, str]:
    """How a field of an object, or of an optional of one, is spelled in JSON, what makes it a value, what more its selection is told."""
    if kind.name == "optional_type":
        kind = kind.parameters[0]
    if kind.kind == "object" and kind.fields is not None and field in kind.fields:
        found = kind.fields[field]
        return found.key, adapter(found.type), ", nullable=True" if found.nullable else ""
    return field, None, ""
