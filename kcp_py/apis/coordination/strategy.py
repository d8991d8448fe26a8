"""Leases.

Source: kubernetes `pkg/apis/coordination/validation` and `pkg/registry/coordination/lease`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.registry.strategy import Strategy

_COORDINATED: Final = ("strategy", "preferredHolder")
"""Fields of coordinated leader election, which is a feature that kube-apiserver has switched off by default."""


class LeaseStrategy(Strategy):
    """Leader election and heartbeats: small, written often, always with a resourceVersion."""

    has_generation = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        _drop_coordination(obj, {})

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        _drop_coordination(obj, old.get("spec") or {})

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            problems.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            problems.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return problems


def _drop_coordination(obj: dict[str, Any], stored: dict[str, Any]) -> None:
    """Fields of a feature that is off are dropped, unless the stored object has them."""
    spec = obj.get("spec")
    if spec and not any(stored.get(member) for member in _COORDINATED):
        for member in _COORDINATED:
            spec.pop(member, None)
