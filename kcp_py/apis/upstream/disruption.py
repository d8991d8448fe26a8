"""Disruptions of pods: what a PodDisruptionBudget is about and says. Pure.

Source: kubernetes `pkg/registry/core/pod/storage/eviction.go`, `pkg/controller/disruption`, k8s.io/component-helpers
`policy/v1` (`pdb/helper`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.selectors import label_selector_of

Object = Mapping[str, Any]

ALLOWED: Final = "DisruptionAllowed"
MOST_DISRUPTED: Final = 2000
"""Pods that a budget knows as evicted at a time."""


def ignores_budgets(pod: Object) -> bool:
    """Whether the eviction of a pod disrupts nothing: it does not run, or will not much longer."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Failed", "Pending", "Succeeded"} or bool(pod["metadata"].get("deletionTimestamp"))


def is_pending(pod: Object) -> bool:
    """Whether a pod may still come to run."""
    return (pod.get("status") or {}).get("phase") == "Pending" and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Object) -> bool:
    """Whether the condition `Ready` of a pod is true."""
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in (pod.get("status") or {}).get("conditions") or ())


def selects(budget: Object, pod: Object) -> bool:
    """Whether a budget is about a pod of its namespace. Without a selector it is about none."""
    try:
        selector = label_selector_of((budget.get("spec") or {}).get("selector"))
    except (StatusError, ValueError):
        return False
    return selector.matches(pod["metadata"].get("labels") or {})


def allows_unhealthy(budget: Object) -> bool:
    """Whether pods that are not ready can be evicted without being counted."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return bool((status.get("currentHealthy") or 0) >= desired > 0)


def condition_of(status: Object) -> Object:
    """The condition that says whether disruptions are allowed; empty where there is none."""
    found: Iterable[Object] = (one for one in status.get("conditions") or () if one.get("type") == ALLOWED)
    return next(iter(found), {})


def wanted_condition(status: Object) -> dict[str, Any]:
    """The condition that follows from the other fields, without a time."""
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    return {
        "type": ALLOWED,
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": status.get("observedGeneration") or 0,
    }


def with_condition(status: Object, now: str, wanted: Object | None = None) -> dict[str, Any]:
    """A status with a condition about disruptions. Without `wanted`, it follows from the other fields."""
    wanted = wanted_condition(status) if wanted is None else wanted
    conditions = list(status.get("conditions") or ())
    for index, one in enumerate(conditions):
        if one.get("type") == ALLOWED:
            since = one.get("lastTransitionTime") if one.get("status") == wanted["status"] else now
            conditions[index] = {**one, **wanted, "lastTransitionTime": since or now}
            break
    else:
        conditions.append({**wanted, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def with_pod_condition(status: Object, wanted: Object, now: str) -> dict[str, Any]:
    """The status of a pod with a condition, whose time is that of its last change."""
    conditions = list(status.get("conditions") or ())
    entry = {"type": wanted["type"], "status": wanted["status"], "lastProbeTime": None, "lastTransitionTime": now, **wanted}
    for index, one in enumerate(conditions):
        if one.get("type") == wanted["type"]:
            if one.get("status") == wanted["status"] and one.get("lastTransitionTime"):
                entry["lastTransitionTime"] = one["lastTransitionTime"]
            conditions[index] = entry
            break
    else:
        conditions.append(entry)
    return {**status, "conditions": conditions}
