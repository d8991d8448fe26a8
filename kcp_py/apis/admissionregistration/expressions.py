"""Compiled expressions of policies, and the variables that a policy composes for them. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/cel/compile.go` and `composition.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kcp_py.apis.admissionregistration.environment import Declared, environment_of, with_composed
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, EvaluationError, InstantiationError
from kcp_py.cel.program import Program, compile_expression
from kcp_py.cel.types import BOOL, DYN, NULL, STRING, Type

CONDITION: Final = (BOOL,)
"""The results of validations and match conditions."""
MESSAGE: Final = (STRING,)
ANNOTATION: Final = (STRING, NULL)


class Expression(NamedTuple):
    """An expression of a policy."""

    text: str
    program: Program | None
    error: str = ""
    """Why there is no program, in upstream's words."""


def compile_in(environment: Environment, text: str, results: tuple[Type, ...] = ()) -> Expression:
    """Compile an expression.

    Args:
        environment: what it may use.
        text: the expression.
        results: the types that its value may have; none for any.
    """
    try:
        program = compile_expression(text, environment)
    except InstantiationError as error:
        return Expression(text, None, f"program instantiation failed: {error}")
    except CompileError as error:
        return Expression(text, None, f"compilation failed: {error}")
    if results and program.result not in results:
        wanted = _shown(results[0]) if len(results) == 1 else f"one of [{' '.join(map(_shown, results))}]"
        return Expression(text, None, f"must evaluate to {wanted} but got {_shown(program.result)}")
    return Expression(text, program)


def _shown(kind: Type) -> str:
    """A type as cel-go's `Type.String` prints it."""
    return f"{kind.name}({', '.join(map(_shown, kind.parameters))})" if kind.parameters else kind.name


class Composition:
    """The environments of one policy. Each variable is declared for the expressions behind it."""

    def __init__(self) -> None:
        self.variables: dict[str, Expression] = {}
        self._types: dict[str, Type] = {}
        self._environments: dict[Declared, Environment] = {}

    def add(self, name: str, text: str, declared: Declared) -> Expression:
        """Compile a variable. Where that fails, other expressions may use it nevertheless, as upstream."""
        expression = self.compile(text, declared)
        self.variables[name] = expression
        self._types[name] = DYN if expression.program is None else expression.program.result
        self._environments.clear()
        return expression

    def compile(self, text: str, declared: Declared, results: tuple[Type, ...] = ()) -> Expression:
        """Compile an expression that may use the variables up to now."""
        environment = self._environments.get(declared)
        if environment is None:
            environment = self._environments[declared] = with_composed(environment_of(declared), self._types)
            if declared.patch_types:
                environment.types = environment_of(declared).types
        return compile_in(environment, text, results)


def prepare(expressions: Iterable[Expression | None]) -> None:
    """Make the code of expressions, which otherwise the first evaluation does."""
    for expression in expressions:
        if expression is not None and expression.program is not None:
            try:
                expression.program.prepare()
            except EvaluationError:
                # The evaluation fails in the same way, and is the one to report it.
                continue


def named(entries: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Names and expressions of entries such as `spec.variables`."""
    for entry in entries:
        yield entry.get("name", ""), entry.get("expression", "")
