"""Evaluation of the expressions of a policy for one request: values, budgets, and variables that are computed when they are used. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/cel/activation.go` and `composition.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.limits import CALL_LIMIT
from kcp_py.cel.values import Budget

if TYPE_CHECKING:
    from kcp_py.apis.admissionregistration.expressions import Expression

OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudgetError(Exception):
    """The expressions of a policy together cost more than they may."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


class TooLargeError(Exception):
    """The evaluation takes too long for the event loop. It has to begin anew elsewhere."""


class Allowance:
    """What evaluations on the event loop may cost together."""

    __slots__ = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units


class Evaluated(NamedTuple):
    """The value of an expression, or why there is none."""

    value: Any = None
    error: str = ""


TRUE: Final = Evaluated(True)
"""What most expressions evaluate to."""


class Evaluation:
    """One pass over expressions of a policy with a budget. The variables of the policy are computed once in a pass."""

    def __init__(
        self, values: Mapping[str, Any], variables: Mapping[str, Expression], budget: int, *, allowance: Allowance | None = None
    ) -> None:
        """Begin a pass.

        Args:
            values: the request, by the names of the variables of the environment.
            variables: the composed variables.
            budget: units that all expressions may cost together.
            allowance: for passes on the event loop.
        """
        self._values = {**values, "variables": _Variables(variables, self) if variables else _NO_VARIABLES}
        self.left = budget
        self._allowance = allowance

    def evaluate(self, expression: Expression) -> Evaluated:
        """The value of an expression.

        Raises:
            OutOfBudgetError: the budget is used up.
            TooLargeError: the allowance is used up.
            Exception: of the function that decides about permissions.
        """
        if expression.program is None:
            return Evaluated(error=f"compilation error: {expression.error}")
        try:
            value = self.value_of(expression)
        except (EvaluationError, CostExceededError) as error:
            return Evaluated(error=f"expression '{expression.text}' resulted in error: {error}")
        return TRUE if value is True else Evaluated(value)

    def value_of(self, expression: Expression) -> Any:
        """The value of an expression that has a program.

        Raises:
            EvaluationError: there is none.
            CostExceededError: it costs more than one expression may.
            OutOfBudgetError: the budget is used up.
            TooLargeError: the allowance is used up.
        """
        program, allowance = expression.program, self._allowance
        assert program is not None
        granted = CALL_LIMIT if self.left >= CALL_LIMIT else self.left + 1
        if allowance is not None and allowance.left < granted:
            granted = allowance.left
        budget = Budget(granted)
        try:
            return program.evaluate(budget, *map(self._values.get, program.variables))
        except CostExceededError:
            if allowance is not None:
                raise TooLargeError from None
            if granted < CALL_LIMIT:
                raise OutOfBudgetError from None
            raise
        finally:
            spent = granted - budget.left
            self.left -= spent
            if allowance is not None:
                allowance.left -= spent


class _Variables(dict[str, Any]):
    """The value of `variables`."""

    def __init__(self, variables: Mapping[str, Expression], evaluation: Evaluation) -> None:
        super().__init__()
        self._expressions = variables
        self._evaluation = evaluation
        self._errors: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        if name not in self._errors:
            try:
                value = self[name] = self._compute(name, self._expressions[name])
            except EvaluationError as error:
                self._errors[name] = str(error)
            else:
                return value
        raise EvaluationError(self._errors[name])

    def _compute(self, name: str, expression: Expression) -> Any:
        if expression.program is None:
            msg = f'composited variable "{name}" fails to compile: {expression.error}'
            raise EvaluationError(msg)
        try:
            return self._evaluation.value_of(expression)
        except (EvaluationError, CostExceededError) as error:
            msg = f'composited variable "{name}" fails to evaluate: {error}'
            raise EvaluationError(msg) from error


_NO_VARIABLES: Final[Mapping[str, Any]] = {}
