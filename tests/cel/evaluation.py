"""Expressions from text to value, as the tests of this folder need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.cel.environment import Environment
from kcp_py.cel.libraries.comprehensions import COMPREHENSIONS
from kcp_py.cel.libraries.optionals import OPTIONALS
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import Program, compile_expression
from kcp_py.cel.types import DYN, Type
from kcp_py.cel.values import Budget

CORE = Environment({}, [STANDARD, OPTIONALS, COMPREHENSIONS])
ENOUGH = 1_000_000


def compiled(text: str, variables: Mapping[str, Type] | None = None) -> Program:
    """A program of the language and its own extensions."""
    return compile_expression(text, CORE.with_variables(variables or {}))


def evaluate(text: str, types: Mapping[str, Type] | None = None, **values: Any) -> Any:
    """The value of an expression; variables without a type are `dyn`."""
    variables = dict.fromkeys(values, DYN) | dict(types or {})
    return compiled(text, variables).evaluate(Budget(ENOUGH), *(values[name] for name in variables))
