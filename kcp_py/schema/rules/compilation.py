"""One compiled rule: its program, its messages, and the problems of its text.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/compilation.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, InstantiationError
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.program import Program, compile_expression
from kcp_py.cel.types import Type, optional_of
from kcp_py.schema.structural.field_paths import FieldPathError, find_field
from kcp_py.schema.structural.nodes import Node, Rule

__all__ = ["CompiledRule", "compile_rules"]

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"
_ENVIRONMENT: Final = Environment({}, KUBERNETES)


@dataclass(frozen=True, kw_only=True)
class CompiledRule:
    """A rule of a schema node. Immutable, and shared between equal schemas.

    Attributes:
        rule: as it was written, trimmed.
        message: trimmed; empty where none was given.
        reason: of the cause, `FieldValueInvalid` unless given.
        field_path: where errors point to, relative to the node: `spec.labels[key]`; empty: to the node.
        program: (self) or (self, oldSelf) -> bool; None: it cannot be compiled.
        message_program: the same variables -> text; None: there is none, or it cannot be compiled.
        transition: whether the old value is asked for.
        optional_old_self: whether it also runs where there is no old value.
        error: why there is no program; empty where there is no rule.
        message_error: why there is no program of the message.
    """

    rule: str
    message: str
    reason: str
    field_path: str
    program: Program | None
    message_program: Program | None
    transition: bool
    optional_old_self: bool
    error: str = ""
    message_error: str = ""

    @cached_property
    def name(self) -> str:
        """How errors about the rule name it."""
        return self.message or self.rule

    @cached_property
    def failure(self) -> str:
        """The message for a rule that does not hold, if its message expression gives none."""
        return self.message or f"failed rule: {self.rule}"


def compile_rules(kind: Type, node: Node) -> tuple[CompiledRule, ...]:
    """The rules of one node, in order.

    Args:
        kind: the type of `self`.
        node: has the rules, and the fields that the paths of rules lead to.
    """
    plain = _ENVIRONMENT.with_variables({SELF: kind, OLD_SELF: kind})
    optional = _ENVIRONMENT.with_variables({SELF: kind, OLD_SELF: optional_of(kind)})
    return tuple(_compile_rule(rule, optional if rule.optional_old_self is True else plain, node) for rule in node.rules)


def _compile_rule(rule: Rule, environment: Environment, node: Node) -> CompiledRule:
    """Compile one rule. Problems are kept, not raised."""
    program, error = None, ""
    if rule.rule.strip():
        program, error = _compile(rule.rule, environment, "bool", what="", otherwise="cel expression must evaluate to a bool")
    message_program, message_error = None, ""
    if program is not None and rule.message_expression:
        wanted = "messageExpression must evaluate to a string"
        message_program, message_error = _compile(
            rule.message_expression, environment, "string", what="messageExpression ", otherwise=wanted
        )
    return CompiledRule(
        rule=rule.rule.strip(),
        message=rule.message.strip(),
        reason=rule.reason or "FieldValueInvalid",
        field_path=_field_path(rule.field_path, node),
        program=program,
        message_program=message_program,
        transition=program is not None and OLD_SELF in program.checked.names.values(),
        optional_old_self=rule.optional_old_self is True,
        error=error,
        message_error=message_error,
    )


def _field_path(text: str, node: Node) -> str:
    """The field that errors of a rule name; empty for a path that the schema does not have."""
    if not text:
        return ""
    try:
        return find_field(text, node).text
    except FieldPathError:
        return ""


def _compile(text: str, environment: Environment, wanted: str, *, what: str, otherwise: str) -> tuple[Program | None, str]:
    """A program of a wanted type, or why there is none."""
    try:
        program = compile_expression(text, environment)
    except InstantiationError as error:
        return None, f"{what or 'program '}instantiation failed: {error}"
    except CompileError as error:
        return None, f"{what}compilation failed: {error}"
    if program.result.kind != wanted:
        return None, otherwise
    return program, ""
