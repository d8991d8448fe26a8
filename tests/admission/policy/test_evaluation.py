"""Values, budgets and variables of one request."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.admission.policy.evaluation import OUT_OF_BUDGET, Allowance, Evaluation, OutOfBudgetError, TooLargeError
from kcp_py.apis.admissionregistration.environment import Declared
from kcp_py.apis.admissionregistration.expressions import Composition

DECLARED = Declared()
PLENTY = 10_000_000
LITTLE, MUCH = 10, 1000
COSTLY = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, a + b + c < 100)))"


def composed(**variables: str) -> Composition:
    """Variables of a policy."""
    composition = Composition()
    for name, text in variables.items():
        composition.add(name, text, DECLARED)
    return composition


def evaluate(text: str, composition: Composition, budget: int = PLENTY, **values: Any) -> Any:
    """The value of an expression in a pass of its own, or its error."""
    result = Evaluation(values, composition.variables, budget).evaluate(composition.compile(text, DECLARED))
    return result.error or result.value


def test_variables_are_computed_once_and_when_used() -> None:
    """A variable costs only what it is used for: once in a pass, and nothing without a use."""
    composition = composed(n=COSTLY, m="variables.n")
    expression = composition.compile("variables.m", DECLARED)
    evaluation = Evaluation({}, composition.variables, PLENTY)
    assert evaluation.evaluate(composition.compile("true", DECLARED)).value is True
    unused = PLENTY - evaluation.left
    assert evaluation.evaluate(expression).value is True
    first = PLENTY - evaluation.left
    assert evaluation.evaluate(expression).value is True
    assert unused < LITTLE
    assert first > MUCH
    assert PLENTY - evaluation.left - first < LITTLE


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("object.nope == 1", "expression 'object.nope == 1' resulted in error: no such key: nope"),
        ("oldObject.data.x == 1", "expression 'oldObject.data.x == 1' resulted in error: no such key: data"),
        ("1 +", "compilation error: compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting"),
        (
            "variables.bad == 1",
            "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no such key: nope",
        ),
    ],
)
def test_errors(text: str, error: str) -> None:
    """The texts are kube-apiserver's (recorded from kube-apiserver 1.37.2)."""
    assert evaluate(text, composed(bad="object.nope"), object={}, oldObject=None).startswith(error)


def test_an_error_of_a_variable_is_kept() -> None:
    """A variable without a value fails in the same way at each use, and can be absorbed."""
    composition = composed(bad="object.nope")
    assert evaluate("variables.bad == 1 || variables.bad == 2 || true", composition, object={}) is True
    assert evaluate("has(variables.bad)", composition, object={}) is True


def test_budgets() -> None:
    """One expression may cost a million units; all expressions of a pass, with their variables, what the pass was given."""
    nested = f"[0,1,2,3,4,5,6,7,8,9].all(d, {COSTLY})"
    long = f"[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, {nested}))"
    composition = composed(long=long)
    assert evaluate(long, composition).endswith("resulted in error: operation cancelled: actual cost limit exceeded")
    assert evaluate("variables.long", composition).endswith("fails to evaluate: operation cancelled: actual cost limit exceeded")
    for text in (COSTLY, "variables.long"):
        with pytest.raises(OutOfBudgetError, match=OUT_OF_BUDGET):
            evaluate(text, composition, 1000)


def test_allowance() -> None:
    """An evaluation that is too large for the event loop ends without a result."""
    composition = composed()
    expression = composition.compile(COSTLY, DECLARED)
    with pytest.raises(TooLargeError):
        Evaluation({}, {}, PLENTY, allowance=Allowance(1000)).evaluate(expression)
    assert Evaluation({}, {}, PLENTY, allowance=Allowance(100_000)).evaluate(expression).value is True
