"""`Rounds`: which rules of a mutating plugin are applied to a write a second time.

Source: k8s.io/apiserver `pkg/admission/plugin/webhook/mutating/reinvocationcontext.go` and its namesake in `policy/mutating`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import orjson

from kcp_py.registry.admission import Attributes


class Rounds:
    """What one plugin keeps of a write from the first time that it sees it for the second one."""

    def __init__(self) -> None:
        self._output = b""
        """The object after the last round."""
        self._previous: set[Hashable] = set()
        """Rules that have been applied and may be applied again."""
        self._due: set[Hashable] = set()

    @classmethod
    def of(cls, attributes: Attributes, plugin: str) -> Rounds:
        """The rounds of a plugin, at the beginning of one. Changes by others since its last round are noted."""
        rounds = attributes.reinvocation.state.setdefault(plugin, cls())
        assert isinstance(rounds, Rounds)
        if attributes.reinvocation.again and rounds._output != _encoded(attributes.obj):  # noqa: SLF001 - its own class
            rounds.changed()
        return rounds

    def changed(self) -> None:
        """The object has changed: rules that were applied before are due, if they may be applied again."""
        self._due |= self._previous
        self._previous = set()

    def applied(self, rule: Hashable) -> None:
        """A rule that may be applied again was applied."""
        self._previous.add(rule)

    def is_due(self, rule: Hashable) -> bool:
        """Whether a rule is applied in the second round. One that was not applied in the first round is not."""
        return rule in self._due

    def end(self, attributes: Attributes) -> None:
        """Note the object at the end of a round."""
        self._output = _encoded(attributes.obj)


def _encoded(obj: Mapping[str, Any] | None) -> bytes:
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
