"""Leases.

Source: kubernetes `pkg/apis/coordination/validation` and `pkg/registry/coordination/lease`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, not_supported
from kcp_py.apimachinery.meta.names import qualified_name_problems
from kcp_py.registry.strategy import Strategy

_STRATEGIES: Final = ("OldestEmulationVersion",)


class LeaseStrategy(Strategy):
    """Leader election and heartbeats: small, written often, always with a resourceVersion."""

    has_generation = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            problems.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            problems.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        strategy = spec.get("strategy")
        if strategy is not None:
            problems += _strategy_problems(strategy)
        if spec.get("preferredHolder") and not strategy:
            problems.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
        return problems


def _strategy_problems(strategy: str) -> list[FieldError]:
    # Upstream appends `strategy` to a path that already ends with it.
    path = "spec.strategy.strategy"
    if "/" not in strategy:
        return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]
    return [invalid(path, strategy, problem) for problem in qualified_name_problems(strategy)]
