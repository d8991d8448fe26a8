"""Expressions are evaluated with one library in addition to the standard one, as in upstream's unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.environment import Environment
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import DYN
from kcp_py.cel.values import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.declarations import Library


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., Any]:
    """(expression, libraries, variables as keywords) -> value; the variables are of type dyn."""

    def run(text: str, *libraries: Library, **variables: object) -> object:
        environment = Environment(dict.fromkeys(variables, DYN), [STANDARD, *libraries])
        return compile_expression(text, environment).evaluate(Budget(100_000_000), *variables.values())

    return run
