"""CEL expressions over the claims of a token and over the user that was made of them.

Source: k8s.io/apiserver `pkg/authentication/cel` and `plugin/pkg/authenticator/token/oidc` (`nativeToValueWithUnescape`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, internal, invalid
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError, InstantiationError
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.program import Program, compile_expression
from kcp_py.cel.syntax import Call, Constant, Expression, Identifier, Select, children
from kcp_py.cel.types import DYN, STRING, Field, list_of, map_of, object_of
from kcp_py.cel.values import Budget
from kcp_py.schema.rules.property_names import KEYWORDS

_USER: Final = object_of(
    "kubernetes.UserInfo",
    {
        "username": Field(STRING, "username"),
        "uid": Field(STRING, "uid"),
        "groups": Field(list_of(STRING), "groups"),
        "extra": Field(map_of(STRING, list_of(STRING)), "extra"),
    },
)
_ESCAPE: Final = re.compile(r"__(underscores|dot|dash|slash)__")
_ESCAPED: Final = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


class ExpressionError(Exception):
    """An expression has no value for a token. `str()` names the expression, not the values of claims."""


@cache
def _environments() -> tuple[Environment, Environment]:
    base = Environment({}, KUBERNETES)
    return base.with_variables({"claims": map_of(STRING, DYN)}), base.with_variables({"user": _USER})


class CompiledExpression:
    """An expression with one variable: `claims` or `user`. Immutable."""

    __slots__ = ("_aliases", "_program", "selected")

    def __init__(self, program: Program) -> None:
        """Find out what the expression selects of the claims."""
        self._program = program
        fields = set(_selected(program.checked.root))
        self.selected = frozenset(field for direct, field in fields if direct)
        """The names of the fields that are selected directly of the variable `claims`."""
        self._aliases = {field: plain for _, field in fields if (plain := _unescaped(field)) != field}

    @property
    def text(self) -> str:
        """The source."""
        return self._program.text

    def evaluate(self, value: Mapping[str, Any], budget: Budget) -> object:
        """The value of the expression.

        Args:
            value: the variable; decoded JSON in which all numbers are floats.
            budget: what the evaluation may cost.

        Raises:
            ExpressionError: the expression has no value, or is too expensive.
        """
        if self._aliases:
            value = _with_aliases(value, self._aliases)
        try:
            return self._program.evaluate(budget, value)
        except (EvaluationError, CostExceededError) as error:
            raise ExpressionError(f"expression '{self.text}' resulted in error: {error}") from None


def compile_claims(text: str, path: str, *, boolean: bool = False) -> CompiledExpression | FieldError:
    """Compile an expression over `claims`.

    Args:
        text: the source.
        path: the field that errors name.
        boolean: whether the type of the expression must be bool; otherwise any type is allowed, because claims have no types.
    """
    return _compile(text, _environments()[0], path, boolean=boolean)


def compile_user(text: str, path: str) -> CompiledExpression | FieldError:
    """Compile a boolean expression over `user`. `path` is the field that errors name."""
    return _compile(text, _environments()[1], path, boolean=True)


def _compile(text: str, environment: Environment, path: str, *, boolean: bool) -> CompiledExpression | FieldError:
    try:
        program = compile_expression(text, environment)
    except InstantiationError as error:
        return internal(path, f"program instantiation failed: {error}")
    except CompileError as error:
        return invalid(path, text, f"compilation failed: {error}")
    if boolean and program.result.kind != "bool":
        return invalid(path, text, "must evaluate to bool")
    return CompiledExpression(program)


def _selected(root: Expression) -> Iterator[tuple[bool, str]]:
    """Whether a field is selected of the variable `claims` itself, and the name of the field."""
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(children(node))
        if isinstance(node, Select):
            yield _is_claims(node.operand), node.field
        elif isinstance(node, Call) and node.function == "_?._" and node.target is None and len(node.args) == 2:
            operand, field = node.args
            if isinstance(field, Constant) and isinstance(field.value, str):
                yield _is_claims(operand), field.value


def _is_claims(node: Expression) -> bool:
    return isinstance(node, Identifier) and node.name == "claims"


def _unescaped(field: str) -> str:
    """The name of a member whose escaped name is `field` (apiserver `cel.Unescape`)."""
    if field.startswith("__") and field.endswith("__") and field[2:-2] in KEYWORDS:
        return field[2:-2]
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], field)


def _with_aliases(value: Any, aliases: Mapping[str, str]) -> Any:
    """A copy of the value in which members can be selected by their escaped names, too."""
    if isinstance(value, dict):
        copied = {name: _with_aliases(member, aliases) for name, member in value.items()}
        copied.update({alias: copied[name] for alias, name in aliases.items() if name in copied})
        return copied
    return [_with_aliases(member, aliases) for member in value] if isinstance(value, list) else value
