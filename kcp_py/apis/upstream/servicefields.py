"""IP families and ports of services, as far as they follow from the service alone. Pure.

Source: kubernetes `pkg/registry/core/service/storage/alloc.go`, `pkg/registry/core/service/strategy.go` (`dropTypeDependentFields`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apis.upstream.validation.services import cluster_address_problems

Object = Mapping[str, Any]

HEADLESS: Final = "None"
_BALANCED: Final = frozenset({"LoadBalancer", "NodePort"})
_OTHER: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}
_POLICY: Final = "spec.ipFamilyPolicy"


def family_of(address: str) -> str:
    """`IPv4` or `IPv6`, of an address that is valid."""
    return "IPv6" if ":" in address else "IPv4"


def needs_address(spec: Object) -> bool:
    """Whether a service has an address of the cluster, unless it is headless."""
    return spec.get("type") != "ExternalName"


def is_headless(spec: Object) -> bool:
    """Whether a service wants no address."""
    return HEADLESS in {spec.get("clusterIP"), *(spec.get("clusterIPs") or ())[:1]}


def needs_node_ports(spec: Object) -> bool:
    """Whether ports of nodes lead to a service."""
    return spec.get("type") in _BALANCED


def needs_health_port(spec: Object) -> bool:
    """Whether a service has a port for health checks."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_external(spec: Object) -> bool:
    """Whether a service can be reached from outside."""
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def node_ports(spec: Object) -> set[int]:
    """The ports of nodes that a service has, without that for health checks."""
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def drop_unneeded(spec: dict[str, Any], before: Object) -> None:
    """Take away, in place, what another type of service does not need, as far as an update left it as it was."""

    def same(*fields: str) -> bool:
        return all((spec.get(field) or None) == (before.get(field) or None) for field in fields)

    if needs_address(before) and not needs_address(spec):
        if same("clusterIPs"):
            for field in ("clusterIP", "clusterIPs"):
                spec.pop(field, None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if same(field):
                spec.pop(field, None)
    if needs_node_ports(before) and not needs_node_ports(spec) and _ports_of(spec) == _ports_of(before):
        spec["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec.get("ports") or ()]
    if needs_health_port(before) and not needs_health_port(spec) and same("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if is_external(before) and not is_external(spec) and same("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)


def _ports_of(spec: Object) -> list[int]:
    return [port.get("nodePort") or 0 for port in spec.get("ports") or ()]


def keep_ports(spec: dict[str, Any], before: Object) -> None:
    """Give ports, in place, the ports of nodes that they had before, where an update leaves them out."""
    if needs_node_ports(before) and needs_node_ports(spec):
        used = node_ports(before) & node_ports(spec)
        known = {port.get("name", ""): port.get("nodePort") or 0 for port in before.get("ports") or ()}
        ports = []
        for port in spec.get("ports") or ():
            value = known.get(port.get("name", ""), 0)
            ports.append({**port, "nodePort": value} if value and not port.get("nodePort") and value not in used else port)
        if "ports" in spec:
            spec["ports"] = ports
    if needs_health_port(before) and needs_health_port(spec) and not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def fill_families(spec: dict[str, Any], before: Object | None, families: Sequence[str]) -> list[FieldError]:
    """Fill policy and families of a service, in place.

    Args:
        spec: of the service.
        before: as stored; None for a new one.
        families: those of the ranges of addresses, the default one first.

    Returns:
        The problems, with which nothing can be assigned.
    """
    if not needs_address(spec) or (before is not None and _keeps_preference(spec, before)):
        return []
    if not spec.get("ipFamilyPolicy"):
        if before is not None and before.get("ipFamilyPolicy"):
            spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
        else:
            spec["ipFamilyPolicy"] = "RequireDualStack" if is_headless(spec) and not spec.get("selector") else "SingleStack"
    if problems := list(cluster_address_problems(spec)):
        return problems
    if problems := list(_policy_problems(spec, before)):
        return problems
    found = list(spec.get("ipFamilies") or ())
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == HEADLESS:
            break
        if index >= len(found):
            if (family := family_of(address)) not in families:
                problems.append(invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], f"{family} is not configured on this cluster"))
            else:
                found.append(family)
    if problems:
        return problems
    policy = spec["ipFamilyPolicy"]
    selects = bool(spec.get("selector"))
    if not is_headless(spec) or selects:
        problems = list(_unconfigured(policy, found, families))
        if problems:
            return problems
    found = found or [families[0]]
    both = len(families) == 2 or (is_headless(spec) and not selects)
    if policy != "SingleStack" and len(found) == 1 and both:
        found.append(_OTHER[found[0]])
    spec["ipFamilies"] = found
    return []


def _keeps_preference(spec: Object, before: Object) -> bool:
    """Whether a service goes on to prefer two families, and has what it had."""
    return (
        spec.get("type") == before.get("type")
        and spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"
        and (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or [])
        and (spec.get("ipFamilies") or []) == (before.get("ipFamilies") or [])
    )


def _policy_problems(spec: dict[str, Any], before: Object | None) -> Iterator[FieldError]:
    """Problems of the policy with addresses and families. A service that becomes single-stack loses the second ones, in place."""
    policy = spec["ipFamilyPolicy"]
    members = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
    if before is not None:
        for member, noun in members:
            new, old = spec.get(member) or [], before.get(member) or []
            if policy == "SingleStack":
                if new == old and len(new) > 1:
                    spec[member] = new[:1]
            elif len(new) == 1 and len(old) == 2 and new[0] == old[0]:
                yield invalid(_POLICY, policy, f"must be 'SingleStack' to release the secondary {noun}")
    if policy == "SingleStack":
        for member, noun in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(member) or ()) == 2:
                yield invalid(_POLICY, policy, f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified")


def _unconfigured(policy: str, wanted: Sequence[str], families: Sequence[str]) -> Iterator[FieldError]:
    if policy == "RequireDualStack" and len(families) < 2:
        yield invalid(_POLICY, policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(wanted):
        if family not in families:
            yield invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
