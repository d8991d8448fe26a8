"""From text to something that can be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.checker import check
from kcp_py.cel.constants import check_constants
from kcp_py.cel.dispatch import NO_SUCH_OVERLOAD
from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.generator import generate
from kcp_py.cel.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.checked import Checked
    from kcp_py.cel.environment import Environment
    from kcp_py.cel.types import Type
    from kcp_py.cel.values import Budget

__all__ = ["Program", "check_expression", "compile_expression"]

_SHOWN: Final = 100


class Program:
    """An expression that can be evaluated. Immutable as seen from outside; its code is made on first use.

    Attributes:
        text: the source.
        variables: the names of the values that `evaluate` takes, in order.
        result: the type of the value.
    """

    __slots__ = ("_checked", "_environment", "_function", "result", "text", "variables")

    def __init__(self, checked: Checked) -> None:
        """Keep what the code will be made of; the variables are the environment's."""
        self.text = checked.text
        self.result: Type = checked.result
        self.variables = tuple(checked.environment.variables)
        self._environment = checked.environment
        self._checked: Checked | None = checked
        self._function: Callable[..., object] | None = None

    @property
    def checked(self) -> Checked:
        """The typed tree. It is dropped when there is code, to save memory, and made again for each later access.

        Raises:
            CompileError: this caller's stack leaves too little room for it.
        """
        return self._checked or _read(self.text, self._environment)

    def evaluate(self, budget: Budget, *values: object) -> object:
        """The expression's value.

        Args:
            budget: what the evaluation may cost.
            values: of `variables`; decoded JSON of their declared types, never changed.

        Raises:
            EvaluationError: there is none.
            CostExceededError: the budget is used up.
        """
        function = self._function
        if function is None:
            function = self._generated()
        try:
            return function(budget, *values)
        except KeyError as error:
            msg = f"no such key: {str(error.args[0])[:_SHOWN]}"
            raise EvaluationError(msg) from error
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise EvaluationError(NO_SUCH_OVERLOAD) from error
        except RecursionError as error:
            msg = "evaluation is too deep"
            raise EvaluationError(msg) from error

    def prepare(self) -> None:
        """Make the code now, rather than in the first evaluation.

        Raises:
            EvaluationError: this caller's stack leaves too little room for it.
        """
        if self._function is None:
            self._generated()

    def _generated(self) -> Callable[..., object]:
        """Make the code.

        Raises:
            EvaluationError: this caller's stack leaves too little room for it.
        """
        try:
            function = generate(self.checked, self.variables)
        except CompileError as error:
            msg = "evaluation is too deep"
            raise EvaluationError(msg) from error
        # In this order: another thread may be here too.
        self._function, self._checked = function, None
        return function


def compile_expression(text: str, environment: Environment) -> Program:
    """Parse and check; the variables of the environment become the program's, in their order.

    Raises:
        CompileError: the text is not an expression, or has no type, or (`InstantiationError`) converts a constant that cannot be converted.
    """
    checked = _read(text, environment)
    check_constants(checked)
    return Program(checked)


def check_expression(text: str, environment: Environment) -> Type:
    """The type of the value of an expression, without a program.

    Raises:
        CompileError: the text is not an expression, or has no type.
    """
    return _read(text, environment).result


def _read(text: str, environment: Environment) -> Checked:
    """From text to typed tree."""
    return check(text, parse(text, environment.macros), environment)
