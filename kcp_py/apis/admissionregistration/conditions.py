"""The problems of match conditions of webhooks (kubernetes `pkg/apis/admissionregistration/validation`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid, required, too_many
from kcp_py.apimachinery.meta.names import qualified_name_problems

MAX_CONDITIONS: Final = 64


def condition_problems(
    conditions: Sequence[Mapping[str, Any]], path: str, compile_problems: Callable[[str, str], list[FieldError]] | None = None
) -> list[FieldError]:
    """The problems of conditions: their names and expressions.

    Args:
        conditions: `matchConditions`.
        path: of the conditions.
        compile_problems: the problems of an expression at a path.
    """
    problems = [too_many(path, len(conditions), MAX_CONDITIONS)] if len(conditions) > MAX_CONDITIONS else []
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"{path}[{index}]"
        text = (condition.get("expression") or "").strip()
        if not text:
            problems.append(required(f"{here}.expression"))
        elif compile_problems is not None:
            problems += compile_problems(text, f"{here}.expression")
        name = condition.get("name") or ""
        if not name:
            problems.append(required(f"{here}.name"))
        problems += [invalid(f"{here}.name", name, mistake) for mistake in (qualified_name_problems(name) if name else ())]
        if name and name in names:
            problems.append(duplicate(f"{here}.name", name))
        names.add(name)
    return problems
