"""What an update must not change of upstream kinds, and what it changes on its own.

Source: kubernetes `pkg/apis/{apps,batch,core,discovery,node,scheduling,storage}/validation`, `pkg/registry/*/*/strategy.go`
(`PrepareForUpdate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.apis.typed.cells import Object, at
from kcp_py.apis.upstream.creation import TEMPLATE_GENERATION, drop_topology, fill_cluster_addresses, fill_sources
from kcp_py.apis.upstream.servicefields import drop_unneeded, keep_ports

_SELECTOR: Final = ("spec.selector",)

IMMUTABLE: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("apps", "controllerrevisions"): ("data",),
    ("apps", "deployments"): _SELECTOR,
    ("apps", "replicasets"): _SELECTOR,
    ("apps", "statefulsets"): (*_SELECTOR, "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"),
    ("batch", "jobs"): (
        *_SELECTOR,
        "spec.template",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    ),
    ("scheduling.k8s.io", "priorityclasses"): ("value", "preemptionPolicy"),
}
"""(group, plural) -> fields."""

_PRIORITY: Final = ("scheduling.k8s.io", "priorityclasses")
_EMPTY: Final[tuple[object, ...]] = (None, {}, [], "")


def changed_problems(name: tuple[str, str], obj: Object, old: Object) -> list[FieldError]:
    """The fields of a kind that an update changes although it must not.

    Args:
        name: group and plural.
        obj: the new object.
        old: the stored one.
    """
    problems = []
    for field in IMMUTABLE.get(name, ()):
        path = field.split(".")
        new, before = at(obj, *path), at(old, *path)
        if new == before or (new in _EMPTY and before in _EMPTY):
            continue
        if field == "spec.template" and at(old, "spec", "suspend") is True:
            continue  # where its pods run may be changed until they do
        if name == _PRIORITY and field == "value":
            problems.append(forbidden(field, "may not be changed in an update."))
        else:
            problems.append(invalid(_field_name(name, field), new, "field is immutable"))
    return problems


def _field_name(name: tuple[str, str], field: str) -> str:
    """Volumes and claims name theirs without its parent."""
    return field.removeprefix("spec.") if name[1].startswith("persistentvolume") else field


def _change_daemon_set(obj: dict[str, Any], old: Object, now: float) -> None:
    """Count the changes of the template. Clients cannot set the count."""
    del now
    before = at(old, "metadata", "annotations", TEMPLATE_GENERATION)
    count = int(before) if isinstance(before, str) and before.isdecimal() else 0
    changed = at(obj, "spec", "template") != at(old, "spec", "template")
    annotations = dict(obj["metadata"].get("annotations") or {})
    obj["metadata"]["annotations"] = annotations | {TEMPLATE_GENERATION: str(count + changed)}


def _change_taint_rule(obj: dict[str, Any], old: Object, now: float) -> None:
    """The time says since when there is the effect."""
    taint, before = obj["spec"]["taint"], at(old, "spec", "taint") or {}
    added = taint.setdefault("timeAdded", before.get("timeAdded"))
    if taint.get("effect") != before.get("effect") and added == before.get("timeAdded"):
        taint["timeAdded"] = format_time(now)


def _change_service(service: dict[str, Any], old: Object, now: float) -> None:
    """A service keeps the addresses and ports that an update leaves out, as `kubectl replace` of the file that made it does.

    It loses what its new type does not need.
    """
    del now
    spec, before = service["spec"], at(old, "spec") or {}
    outside = "ExternalName" in {spec.get("type"), before.get("type")}
    if not outside and not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec.update({member: before[member] for member in ("clusterIP", "clusterIPs") if before.get(member)})
    fill_cluster_addresses(service)
    keep_ports(spec, before)
    drop_unneeded(spec, before)
    if spec.get("type") != "LoadBalancer" and (service.get("status") or {}).get("loadBalancer"):
        service["status"] = {**service["status"], "loadBalancer": {}}


def _change_claim(claim: dict[str, Any], old: Object, now: float) -> None:
    """The two fields for the source agree."""
    del now
    fill_sources(claim["spec"], at(old, "spec") or {})


def _change_driver(driver: dict[str, Any], old: Object, now: float) -> None:
    """The generation counts changes alone: it is not there before the first one."""
    del now
    if driver.get("spec") != old.get("spec"):
        driver["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _change_slice(endpoint_slice: dict[str, Any], old: Object, now: float) -> None:
    """What version v1 does not take is dropped."""
    del now
    drop_topology(endpoint_slice, old)


CHANGES: Final[Mapping[tuple[str, str], Callable[[dict[str, Any], Object, float], None]]] = {
    ("", "persistentvolumeclaims"): _change_claim,
    ("", "services"): _change_service,
    ("apps", "daemonsets"): _change_daemon_set,
    ("discovery.k8s.io", "endpointslices"): _change_slice,
    ("resource.k8s.io", "devicetaintrules"): _change_taint_rule,
    ("storage.k8s.io", "csidrivers"): _change_driver,
}
"""(group, plural) -> what an update changes, in place, given the stored object and the present in unix seconds."""
