"""Permissions in expressions."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.libraries.authz import AUTHORIZER, AUTHZ, RESOURCE_CHECK, Authorizer, Decision, Question, ResourceCheck
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import DYN
from kcp_py.cel.values import Budget

ENVIRONMENT = Environment({"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK, "any": DYN}, [STANDARD, AUTHZ])
UNITS = 1_000_000


class AskedError(Exception):
    """Ends an evaluation with the question."""


def evaluate(text: str, answer: Decision | None = None, budget: Budget | None = None) -> Any:
    """The value of an expression. Without an answer, a question raises `AskedError`."""

    def decide(question: Question) -> Decision:
        if answer is None:
            raise AskedError(question)
        return answer

    values = (Authorizer(decide), ResourceCheck(decide, Question("", resource="pods", namespace="here")), Authorizer(decide))
    return compile_expression(text, ENVIRONMENT).evaluate(budget or Budget(UNITS), *values)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("authorizer.path('/healthz').check('get')", Question("get", path="/healthz")),
        ("authorizer.group('').resource('pods').check('list')", Question("list", resource="pods")),
        (
            "authorizer.serviceAccount('ns', 'bot').group('apps').resource('deployments').subresource('scale')"  # noqa: ISC004
            ".namespace('a').name('b').fieldSelector('a=b').labelSelector('c').check('get')",
            Question("get", ("ns", "bot"), "", "apps", "deployments", "scale", "a", "b", "a=b", "c"),
        ),
        ("authorizer.requestResource.name('x').check('approve')", Question("approve", resource="pods", namespace="here", name="x")),
        ("any.group('g').resource('r').check('v')", Question("v", group="g", resource="r")),
    ],
)
def test_questions(text: str, question: Question) -> None:
    """The function that decides is asked exactly what the expression says, and nothing absorbs what it raises."""
    for whole in (f"{text}.allowed()", f"{text}.allowed() || true", f"[1].exists(x, {text}.allowed())"):
        with pytest.raises(AskedError) as caught:
            evaluate(whole)
        assert caught.value.args == (question,)


def test_answers() -> None:
    """An answer can be allowed, have a reason, or be an error."""
    check = "authorizer.requestResource.check('get')"
    assert evaluate(f"{check}.allowed() && {check}.reason() == 'why'", Decision(allowed=True, reason="why")) is True
    assert evaluate(f"{check}.errored() && {check}.error() == 'broken'", Decision(allowed=False, error="broken")) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('a', 'B').path('/x').check('get').allowed()", "Invalid service account name"),
        ("authorizer.serviceAccount('a.b', 'c').path('/x').check('get').allowed()", "Invalid service account namespace"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    """Questions that make no sense have no value. The texts are kube-apiserver's."""
    with pytest.raises(EvaluationError, match=message):
        evaluate(text, Decision(allowed=True))


def test_cost() -> None:
    """A question costs 350,000 units, so that one expression asks two at most."""
    budget = Budget(UNITS)
    evaluate("authorizer.path('/x').check('get').allowed()", Decision(allowed=True), budget)
    assert 350_000 <= UNITS - budget.left < 351_000
