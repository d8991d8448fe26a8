"""Leases.

Source: kubernetes `pkg/apis/coordination/validation` and `pkg/registry/coordination/lease`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, not_supported
from kcp_py.apimachinery.names import qualified_name_problems
from kcp_py.apimachinery.timestamps import format_micro_time, parse_time
from kcp_py.registry.strategy import Strategy

_STRATEGIES: Final = ("OldestEmulationVersion",)
_TIMES: Final = ("acquireTime", "renewTime")


class LeaseStrategy(Strategy):
    """Leader election and heartbeats: small, written often, always with a resourceVersion."""

    has_generation = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        canonicalize_micro_times(obj.get("spec"), _TIMES)

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        canonicalize_micro_times(obj.get("spec"), _TIMES)

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


def canonicalize_micro_times(fields: dict[str, Any] | None, names: tuple[str, ...]) -> None:
    """Write times with six digits, as upstream's MicroTime does. What is no time is left for the schema to report."""
    for name in names if fields else ():
        value = (fields or {}).get(name)
        if isinstance(value, str) and not (len(value) == 27 and value[-1] == "Z"):
            try:
                formatted = format_micro_time(parse_time(value))
            except ValueError:
                continue
            fields[name] = formatted  # type: ignore[index]


def _strategy_problems(strategy: str) -> list[FieldError]:
    # Upstream appends `strategy` to a path that already ends with it.
    path = "spec.strategy.strategy"
    if "/" not in strategy:
        return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]
    return [invalid(path, strategy, problem) for problem in qualified_name_problems(strategy)]
