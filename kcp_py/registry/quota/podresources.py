"""What pods ask for, as quotas and quality of service see it.

Source: kubernetes `pkg/quota/v1/evaluator/core/pods.go`, `pkg/apis/core/v1/helper/qos`, k8s.io/component-helpers `resource/helpers.go`.
Unlike upstream, the resources that kubelets report in the status of a pod do not count, and a pod that is stuck in its deletion counts
until it is gone: what an object uses follows from the object alone, so that each write is charged with exactly what a recount finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kcp_py.apimachinery.amounts import Amounts, add, raise_to
from kcp_py.apimachinery.quantity import Quantity, parse_quantity

ONE: Final = Quantity(10**9, "DecimalSI", 0)
ZERO: Final = Quantity(0, "DecimalSI", 0)

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""What every container has to state where a quota limits it."""
_OF_SERVICE_QUALITY: Final = ("cpu", "memory")


def amounts_of(value: Any) -> dict[str, Quantity]:
    """The readable quantities of a resource list."""
    found = {}
    for name, amount in value.items() if isinstance(value, dict) else ():
        try:
            found[name] = parse_quantity(amount)
        except ValueError:
            continue
    return found


def pod_usage(pod: Mapping[str, Any]) -> dict[str, Quantity]:
    """What a pod counts for: `count/pods` always, all else unless it has succeeded or failed."""
    if _member(pod, "status").get("phase") in {"Failed", "Succeeded"}:
        return {"count/pods": ONE}
    spec = _member(pod, "spec")
    return {"count/pods": ONE, **_named(_pod_amounts(spec, "requests"), _pod_amounts(spec, "limits"))}


def pod_requests(pod: Mapping[str, Any]) -> dict[str, Quantity]:
    """What a pod asks for, all its containers and the overhead together (`PodRequests`)."""
    return _pod_amounts(_member(pod, "spec"), "requests")


def missing_amounts(required: Iterable[str], pod: Mapping[str, Any]) -> str:
    """What containers have to state because a quota limits it, in upstream's words; empty where nothing is missing."""
    needed = _OF_CONTAINERS.intersection(required)
    spec = _member(pod, "spec")
    if not needed or _is_set(spec, "requests") or _is_set(spec, "limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in _containers(spec):
        stated = _named(_amounts(container, "requests"), _amounts(container, "limits"))
        for name in needed.difference(stated):
            missing.setdefault(name, set()).add(str(container.get("name", "")))
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def is_best_effort(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has the class of service `BestEffort`: it asks for no processor time and no memory."""
    spec = _member(pod, "spec")
    holders = [spec] if _is_set(spec, "requests") or _is_set(spec, "limits") else list(_containers(spec))
    return not any(
        amounts[name].nano
        for holder in holders
        for amounts in (_amounts(holder, "requests"), _amounts(holder, "limits"))
        for name in _OF_SERVICE_QUALITY
        if name in amounts
    )


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether a pod ends by itself: the scope `Terminating`, which is not about deletion."""
    deadline = _member(pod, "spec").get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def prefers_other_namespaces(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has affinities to pods of other namespaces: the scope `CrossNamespacePodAffinity`."""
    affinity = _member(_member(pod, "spec"), "affinity")
    for one in (_member(affinity, "podAffinity"), _member(affinity, "podAntiAffinity")):
        terms = list(one.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [_member(term, "podAffinityTerm") for term in one.get("preferredDuringSchedulingIgnoredDuringExecution") or ()]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def is_extended(name: str) -> bool:
    """Whether the name of a resource is neither Kubernetes' own nor one of quotas (`IsExtendedResourceName`)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _named(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Requests and limits under the names that quotas have for them (`podComputeUsageHelper`)."""
    found = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[f"requests.{name}"] = requests[name]
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(_HUGE_PAGES):
            found[name] = found[f"requests.{name}"] = amount
        elif is_extended(name) or name.startswith(_DEVICE_CLASS):
            found[f"requests.{name}"] = amount
    return found


def _pod_amounts(spec: Mapping[str, Any], member: str) -> dict[str, Quantity]:
    """The requests or the limits of a whole pod.

    Containers run together, init containers one after the other before them, and those that restart together with all that follow.
    """
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        add(total, _amounts(container, member))
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, member)
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            raise_to(most, sidecars)
        else:
            add(amounts, sidecars)
            raise_to(most, amounts)
    raise_to(total, most)
    if _is_set(spec, member):
        total |= {name: amount for name, amount in _amounts(spec, member).items() if _is_for_pods(name)}
    overhead = amounts_of(spec.get("overhead"))
    # Limits grow by the overhead where there are any.
    add(total, overhead if member == "requests" else {name: one for name, one in overhead.items() if name in total and total[name].nano})
    return total


def _is_set(spec: Mapping[str, Any], member: str) -> bool:
    """Whether a pod states requests or limits for all its containers together."""
    return any(_is_for_pods(name) for name in _member(_member(spec, "resources"), member))


def _is_for_pods(name: str) -> bool:
    return name in _OF_SERVICE_QUALITY or name.startswith(_HUGE_PAGES)


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _amounts(holder: Mapping[str, Any], member: str) -> dict[str, Quantity]:
    return amounts_of(_member(holder, "resources").get(member))


def _member(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}
