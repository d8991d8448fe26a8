"""One rule, compiled: what it needs, what it says when it fails, and what is wrong with it.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/compilation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kcp_py.schema.cel.environment import Environment
from kcp_py.schema.cel.errors import CompileError
from kcp_py.schema.cel.libraries.standard import STANDARD
from kcp_py.schema.cel.program import Program, compile_expression
from kcp_py.schema.cel.types import Type, optional_of

__all__ = ["CompiledRule", "compile_rule", "compile_rules"]

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"
_ENVIRONMENT: Final = Environment({}, (STANDARD,))


@dataclass(frozen=True, kw_only=True)
class CompiledRule:
    """A rule of a schema node. Immutable; shared by everybody with an equal schema.

    Attributes:
        rule: as it was written, trimmed.
        message: trimmed; empty where none was given.
        reason: of the cause, `FieldValueInvalid` unless given.
        field_path: where errors point to, relative to the node, as written.
        program: (self) or (self, oldSelf) -> bool; None: it cannot be compiled.
        message_program: the same variables -> text; None: there is none, or it cannot be compiled.
        transition: whether the old value is asked for.
        optional_old_self: whether it also runs where there is no old value.
        error: why the rule is none: (whether it is missing, upstream's detail).
        message_error: why the message's expression is none.
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
        """What is said where the rule does not hold and no expression says it better."""
        return self.message or f"failed rule: {self.rule}"


def compile_rules(rules: Sequence[Mapping[str, Any]], kind: Type) -> tuple[CompiledRule, ...]:
    """The rules of one node, in order.

    Args:
        rules: the node's `x-kubernetes-validations`.
        kind: what `self` is.
    """
    return tuple(compile_rule(rule, kind) for rule in rules)


def compile_rule(rule: Mapping[str, Any], kind: Type) -> CompiledRule:
    """One rule; what is wrong with it is kept, not raised."""
    optional = rule.get("optionalOldSelf") is True
    variables = {SELF: kind, OLD_SELF: optional_of(kind) if optional else kind}
    environment = _ENVIRONMENT.with_variables(variables)
    program, error = _compile((rule.get("rule") or "").strip(), environment, "bool", "cel expression must evaluate to a bool")
    text = (rule.get("messageExpression") or "").strip()
    message_program, message_error = None, ""
    if text:
        message_program, message_error = _compile(text, environment, "string", "messageExpression must evaluate to a string")
    return CompiledRule(
        rule=(rule.get("rule") or "").strip(),
        message=(rule.get("message") or "").strip(),
        reason=rule.get("reason") or "FieldValueInvalid",
        field_path=(rule.get("fieldPath") or "").strip(),
        program=program,
        message_program=message_program,
        transition=program is not None and OLD_SELF in program.checked.names.values(),
        optional_old_self=optional,
        error=error,
        message_error=message_error,
    )


def _compile(text: str, environment: Environment, wanted: str, otherwise: str) -> tuple[Program | None, str]:
    """A program of a wanted type, or why there is none."""
    if not text:
        return None, ""
    try:
        program = compile_expression(text, environment)
    except CompileError as error:
        return None, f"compilation failed: {error}"
    if program.result.kind != wanted:
        return None, otherwise
    return program, ""
