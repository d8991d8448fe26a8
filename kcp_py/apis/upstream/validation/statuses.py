"""The status that controllers write: counts of workloads, conditions, addresses of load balancers.

Source: kubernetes `pkg/apis/apps/validation`, `pkg/apis/core/validation`, `pkg/apis/policy/validation` (`Validate*StatusUpdate`),
k8s.io/apimachinery `pkg/apis/meta/v1/validation` (`ValidateConditions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import NOT_A_NAME, Object, Problems, address, is_address, name, not_negative, one_of, qualified

StatusRule = Callable[[Object, Object], Problems]

_CONDITION_STATES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_IS_REASON: Final = re.compile(_REASON, re.ASCII)
_BAD_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', "
    "and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
    f"'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024
_DISRUPTIONS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _counts(members: Sequence[str], bounded: Sequence[str] = (), ready: str = "", *, of_deployment: bool = False) -> StatusRule:
    """The rule of a kind that counts pods.

    Args:
        members: the counts, which are not negative.
        bounded: those of them that are at most `replicas`.
        ready: the name in messages of the count of ready pods, which bounds that of available ones; empty for no such bound.
        of_deployment: whether the count of collisions never goes down.
    """

    def problems(obj: Object, old: Object) -> Problems:
        status, before = obj.get("status") or {}, old.get("status") or {}
        for member in members:
            yield from not_negative(status.get(member), f"status.{member}")
        for member in bounded:
            if status.get(member, 0) > status.get("replicas", 0):
                yield invalid(f"status.{member}", status[member], "cannot be greater than status.replicas")
        if ready and status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
            yield invalid("status.availableReplicas", status["availableReplicas"], f"cannot be greater than {ready}")
        collisions = before.get("collisionCount")
        if of_deployment and collisions is not None and status.get("collisionCount", -1) < collisions:
            yield invalid("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")

    return problems


daemon_set_status: Final = _counts(
    (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    ),
    of_deployment=True,
)  # fmt: skip
deployment_status: Final = _counts(
    (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas",
        "terminatingReplicas", "collisionCount",
    ),
    ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "readyReplicas",
    of_deployment=True,
)  # fmt: skip
replica_set_status: Final = _counts(
    ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration", "terminatingReplicas"),
    ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "readyReplicas",
)
stateful_set_status: Final = _counts(
    (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration", "collisionCount",
    ),
    ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "status.readyReplicas",
    of_deployment=True,
)  # fmt: skip


def budget_status_problems(budget: Object, old: Object) -> Problems:
    """What a disruption budget allows."""
    del old
    status = budget.get("status") or {}
    yield from conditions(status.get("conditions") or (), "status.conditions")
    for member in _DISRUPTIONS:
        yield from not_negative(status.get(member), f"status.{member}")


def conditions(values: Sequence[Object], path: str) -> Problems:
    """Conditions of the common type."""
    seen: set[str] = set()
    for index, condition in enumerate(values):
        here, kind, reason = f"{path}[{index}]", condition.get("type", ""), condition.get("reason", "")
        if kind in seen:
            yield duplicate(here, kind)
        seen.add(kind)
        if not kind:
            yield required(f"{here}.type", "is required")
        else:
            yield from qualified(kind, f"{here}.type")
        yield from one_of(condition.get("status"), f"{here}.status", _CONDITION_STATES)
        if condition.get("observedGeneration", 0) < 0:
            yield invalid(f"{here}.observedGeneration", condition["observedGeneration"], "must be greater than or equal to zero")
        if not condition.get("lastTransitionTime"):
            yield required(f"{here}.lastTransitionTime")
        if not reason:
            yield required(f"{here}.reason")
        elif not _IS_REASON.fullmatch(reason):
            yield invalid(f"{here}.reason", reason, _BAD_REASON)
        if names.byte_length(reason) > _MAX_REASON:
            yield too_long(f"{here}.reason", _MAX_REASON)
        if names.byte_length(condition.get("message", "")) > _MAX_MESSAGE:
            yield too_long(f"{here}.message", _MAX_MESSAGE)


def service_status_problems(service: Object, old: Object) -> Problems:
    """Where a service is reached."""
    entries, before = (((value.get("status") or {}).get("loadBalancer") or {}).get("ingress") or () for value in (service, old))
    path = "status.loadBalancer.ingress"
    if entries and (service.get("spec") or {}).get("type") != "LoadBalancer":
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    stored = {entry.get("ip") for entry in before}
    for index, entry in enumerate(entries):
        here, given, mode, host = f"{path}[{index}]", entry.get("ip", ""), entry.get("ipMode"), entry.get("hostname", "")
        if given and given not in stored:
            yield from address(given, f"{here}.ip")
        if mode is None and given:
            yield required(f"{here}.ipMode", "must be specified when `ip` is set")
        elif mode is not None and not given:
            yield forbidden(f"{here}.ipMode", "may not be specified when `ip` is not set")
        elif mode not in {None, "Proxy", "VIP"}:
            yield not_supported(f"{here}.ipMode", mode, ("Proxy", "VIP"))
        if host:
            yield from name(host, f"{here}.hostname")
            if is_address(host):
                yield invalid(f"{here}.hostname", host, NOT_A_NAME)
