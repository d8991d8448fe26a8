"""What ResourceClaims ask for, as quotas see it: devices of each class.

Source: kubernetes `pkg/quota/v1/evaluator/core/resource_claims.go`. Unlike upstream, a claim does not count for the extended resource that
its DeviceClass stands for: what an object uses follows from the object alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.quantity import Quantity
from kcp_py.registry.quota.podresources import ONE

DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
"""What follows the name of a class in the name of a quota."""
COUNT: Final = "count/resourceclaims.resource.k8s.io"

_MOST_DEVICES: Final = 32
"""What a request for all devices counts for: an allocation has no more (`AllocationResultsMaxSize`)."""


def device_usage(claim: Mapping[str, Any]) -> Mapping[str, Quantity]:
    """The claim itself, and its devices by class.

    A request with alternatives counts for the most devices of each class that one of them has.
    """
    totals: dict[str, int] = {}
    for request in _maps(_member(_member(claim.get("spec"), "devices"), "requests")):
        most: dict[str, int] = {}
        for one in _maps(request.get("firstAvailable")) or _maps([request.get("exactly")]):
            name, number = str(one.get("deviceClassName", "")), _number(one)
            most[name] = max(number, most.get(name, 0))
        for name, number in most.items():
            totals[name] = totals.get(name, 0) + number
    return {COUNT: ONE, **{f"{name}{DEVICES}": Quantity(number * ONE.nano, "DecimalSI", 0) for name, number in totals.items()}}


def covers_claims(name: str) -> bool:
    """Whether a name in a quota is about ResourceClaims."""
    return name == COUNT or name.endswith(DEVICES)


def _number(request: Mapping[str, Any]) -> int:
    mode, count = request.get("allocationMode", "ExactCount"), request.get("count", 1)
    if mode == "All":
        return _MOST_DEVICES
    return count if mode == "ExactCount" and isinstance(count, int) else 0


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
