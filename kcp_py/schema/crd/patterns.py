"""A limit on the time that compiling the patterns of a CRD takes, during which the process does no other work.

Upstream has no such limit, because Go compiles patterns concurrently with its other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden
from kcp_py.golang.regexp import compile_microseconds

MAX_MICROSECONDS: Final = 500_000
"""All different patterns of a CRD, those in rules included."""

_SEARCHES: Final = ("matches", "find")


def node_microseconds(node: Mapping[str, Any]) -> int:
    """How long the patterns of one schema node, without those below it, take to be compiled, about."""
    return sum(map(compile_microseconds, _patterns(node)))


def cost_errors(nodes: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> list[FieldError]:
    """One error if all patterns together take too long. Those of the stored CRD may stay.

    Args:
        nodes: of all schemas.
        before: of all schemas of the stored CRD.
    """
    patterns = {pattern for node in nodes for pattern in _patterns(node)}
    if sum(map(compile_microseconds, patterns)) <= MAX_MICROSECONDS or patterns <= {text for node in before for text in _patterns(node)}:
        return []
    return [forbidden("spec.versions", "the patterns of all schemas take too long to compile: use fewer repetitions and Unicode classes")]


def _patterns(node: Mapping[str, Any]) -> Iterable[str]:
    if isinstance(pattern := node.get("pattern"), str) and pattern:
        yield pattern
    rules = node.get("x-kubernetes-validations")
    for rule in rules if isinstance(rules, list) else ():
        # The patterns of a rule are somewhere in its text, which costs as much as they do.
        text = rule.get("rule") if isinstance(rule, dict) else None
        if isinstance(text, str) and any(name in text for name in _SEARCHES):
            yield text
