"""The example of docs/cel.md."""

from __future__ import annotations

import pytest

from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.estimate import estimate
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.limits import CALL_LIMIT
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import INT, STRING, Field, list_of, object_of
from kcp_py.cel.values import Budget

WIDGET = object_of("Widget", {"replicas": Field(INT, "replicas"), "tags": Field(list_of(STRING, max_size=10), "tags")})
ENVIRONMENT = Environment({"self": WIDGET}, KUBERNETES)


def holds(text: str, widget: object) -> bool:
    """Whether an expression is true for a widget."""
    program = compile_expression(text, ENVIRONMENT)  # raises CompileError with all problems of the text
    assert program.result.name == "bool"
    assert estimate(program.checked).max <= CALL_LIMIT
    return program.evaluate(Budget(CALL_LIMIT), widget) is True  # raises EvaluationError, CostExceededError


def test_an_expression_is_compiled_estimated_and_evaluated() -> None:
    """The package needs nothing but an environment, a text and decoded JSON."""
    assert holds("self.replicas < 5 && self.tags.all(tag, tag.startsWith('a'))", {"replicas": 3, "tags": ["a", "ab"]})
    assert not holds("self.replicas < 5", {"replicas": 7, "tags": []})


def test_mistakes_and_costs_are_errors() -> None:
    """A text is refused before it runs; an evaluation ends with the value, an error of its own or an exhausted budget."""
    with pytest.raises(CompileError, match="undefined field 'size'"):
        holds("self.size > 1", {})
    with pytest.raises(EvaluationError):
        holds("1 / self.replicas > 0", {"replicas": 0})
    with pytest.raises(CostExceededError):
        compile_expression("self.tags.all(tag, tag != '')", ENVIRONMENT).evaluate(Budget(1), {"tags": ["a", "b"]})
