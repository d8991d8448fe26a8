"""What one object counts for in quotas, by the kind of the object.

Source: kubernetes `pkg/quota/v1/evaluator/core`, k8s.io/apiserver `pkg/quota/v1/generic` and `pkg/quota/v1/install`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.amounts import Amounts
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.quantity import Quantity
from kcp_py.registry.quota.deviceclaims import covers_claims, device_usage
from kcp_py.registry.quota.podresources import (
    ONE,
    ZERO,
    amounts_of,
    is_best_effort,
    is_extended,
    is_terminating,
    missing_amounts,
    pod_usage,
    prefers_other_namespaces,
)

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
DEVICE_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
IGNORED: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
"""What no quota counts."""

_COUNT: Final = "count/"
_ALIASES: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
"""Resources of the core group that quotas also count under their plain names."""
_OF_PODS: Final = frozenset({
    "count/pods",
    "pods",
    *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")),
})  # fmt: skip
_PREFIXES_OF_PODS: Final = ("hugepages-", "requests.hugepages-", "requests.deviceclass.resource.kubernetes.io/")
_OF_SERVICES: Final = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS: Final = frozenset({"count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"})
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_NANO: Final = 10**9


class Scope(NamedTuple):
    """One condition on the objects that a quota counts: a scope, or an expression of its selector."""

    name: str
    operator: str = "Exists"
    values: Collection[str] = ()

    def allows(self, names: Collection[str]) -> bool:
        """Whether an object with these names for the scope is counted. No name is like a label that is missing."""
        match self.operator:
            case "Exists":
                return bool(names)
            case "DoesNotExist":
                return not names
            case "In":
                return any(name in self.values for name in names)
            case _:
                return not names or any(name not in self.values for name in names)


class Evaluator(NamedTuple):
    """How objects of one resource are counted."""

    usage: Callable[[Mapping[str, Any]], Amounts]
    """What an object counts for, by the names that quotas use."""
    covers: Callable[[str], bool]
    """Whether a name in a quota is about the resource."""
    in_scope: Callable[[Scope, Mapping[str, Any]], bool]
    """Whether a condition of a quota holds for an object."""
    constant: bool
    """Whether each object counts for the same, so that only its existence matters."""
    missing: Callable[[Iterable[str], Mapping[str, Any]], str] = lambda _, __: ""
    """What an object has to state where a quota limits these names; empty where nothing is missing."""


@lru_cache(maxsize=4096)
def evaluator_of(resource: GroupResource) -> Evaluator:
    """How objects of a resource are counted. Not for those that are `IGNORED`."""
    special = _SPECIAL.get(resource)
    if special is not None:
        return special
    names = {f"{_COUNT}{resource}"}
    if not resource.group and resource.resource in _ALIASES:
        names.add(resource.resource)
    usage = dict.fromkeys(names, ONE)
    return Evaluator(lambda _: usage, names.__contains__, lambda _, __: False, constant=True)


def resource_of_name(name: str) -> GroupResource | None:
    """The resource that a name in a quota is about; None where there is none, so that it is never counted."""
    for resource, evaluator in _SPECIAL.items():
        if evaluator.covers(name):
            return resource
    if name in _ALIASES:
        return GroupResource("", name)
    if not name.startswith(_COUNT):
        return None
    plural, _, group = name.removeprefix(_COUNT).partition(".")
    found = GroupResource(group, plural)
    return None if found in IGNORED else found


def _pod_in_scope(scope: Scope, pod: Mapping[str, Any]) -> bool:
    match scope.name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return is_best_effort(pod)
        case "NotBestEffort":
            return not is_best_effort(pod)
        case "PriorityClass":
            name = (pod.get("spec") or {}).get("priorityClassName")
            return scope.allows((name,) if name else ())
        case "CrossNamespacePodAffinity":
            return prefers_other_namespaces(pod)
    return False


def _service_usage(service: Mapping[str, Any]) -> Amounts:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or ()
    node_ports = 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    elif kind in {"NodePort", "LoadBalancer"}:
        node_ports = len(ports)
    return {
        "count/services": ONE,
        "services": ONE,
        "services.nodeports": Quantity(node_ports * _NANO, "DecimalSI", 0),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else ZERO,
    }


def _claim_usage(claim: Mapping[str, Any]) -> Amounts:
    spec, annotations = claim.get("spec") or {}, claim["metadata"].get("annotations") or {}
    found = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
    # The annotation is the older way, and wins where it is (`GetPersistentVolumeClaimClass`).
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class", spec.get("storageClassName")) or ""
    amount = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if amount is not None:
        allocated = amounts_of((claim.get("status") or {}).get("allocatedResources")).get("storage")
        if allocated is not None and allocated.nano > amount.nano:
            amount = allocated
        if amount.nano % _NANO:
            amount = Quantity(amount.value * _NANO, amount.format, None)
        found["requests.storage"] = amount
    if storage_class:
        found |= {f"{storage_class}{_STORAGE_CLASS}{name}": one for name, one in found.items() if not name.startswith(_COUNT)}
    return found


def _covers_claims(name: str) -> bool:
    _, separator, measured = name.partition(_STORAGE_CLASS)
    return name in _OF_CLAIMS or (bool(separator) and measured in {"persistentvolumeclaims", "requests.storage"})


def _claim_in_scope(scope: Scope, claim: Mapping[str, Any]) -> bool:
    if scope.name != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names: Sequence[Any] = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return scope.allows({name for name in names if name})


def _covers_pods(name: str) -> bool:
    extended = name.startswith("requests.") and is_extended(name.removeprefix("requests."))
    return name in _OF_PODS or name.startswith(_PREFIXES_OF_PODS) or extended


_SPECIAL: Final[Mapping[GroupResource, Evaluator]] = {
    CLAIMS: Evaluator(_claim_usage, _covers_claims, _claim_in_scope, constant=False),
    DEVICE_CLAIMS: Evaluator(device_usage, covers_claims, lambda _, __: False, constant=False),
    PODS: Evaluator(pod_usage, _covers_pods, _pod_in_scope, constant=False, missing=missing_amounts),
    SERVICES: Evaluator(_service_usage, _OF_SERVICES.__contains__, lambda _, __: False, constant=False),
}
