"""Services.

Source: kubernetes `pkg/apis/core/validation` (`validateService`, `ValidateServiceUpdate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.containers import PROTOCOLS
from kcp_py.apis.upstream.validation.fields import (
    IMMUTABLE,
    Object,
    Problems,
    address,
    as_struct,
    cidr,
    name,
    one_of,
    port,
    port_number,
    qualified,
    required_name,
)
from kcp_py.apis.upstream.validation.selectors import labels
from kcp_py.golang.addresses import AddressError, parse_address

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OUTSIDE: Final = ("NodePort", "LoadBalancer")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY: Final = 86400
_OF_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"


def service_problems(service: Object) -> Problems:
    """A new service."""
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or ()
    headless = _is_headless(spec)
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind in _OUTSIDE and headless:
        yield invalid("spec.clusterIPs[0]", spec["clusterIPs"][0], f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for member in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(member):
                yield forbidden(f"spec.{member}", "may not be set for ExternalName services")
        yield from required_name(spec.get("externalName", "").removesuffix("."), "spec.externalName")
    yield from _ports(ports)
    yield from labels(spec.get("selector"), "spec.selector")
    yield from _affinity(spec)
    if kind != "ExternalName":
        yield from cluster_address_problems(spec)
    for index, outside in enumerate(spec.get("externalIPs") or ()):
        yield from _external_address(outside, f"spec.externalIPs[{index}]")
    yield from one_of(kind, "spec.type", _TYPES)
    yield from _repeated_ports(ports, kind)
    yield from _balancer(spec, kind)
    yield from _traffic(spec, kind)


def changed_service_problems(service: Object, old: Object) -> Problems:
    """A service that an update changes."""
    spec, before = service.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in {spec.get("type"), before.get("type")} and not (_is_headless(spec) and _is_headless(before)):
        yield from _changed_addresses(spec.get("clusterIPs") or [], before.get("clusterIPs") or [])
    yield from _changed_balancer_class(spec, before)
    if _needs_health_check(spec) and _needs_health_check(before) and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        yield forbidden("spec.healthCheckNodePort", IMMUTABLE)
    if spec != before:
        yield from service_problems(service)


def _is_headless(spec: Object) -> bool:
    return spec.get("clusterIPs") == ["None"]


def _needs_health_check(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _ports(ports: Sequence[Object]) -> Problems:
    seen: set[str] = set()
    for index, value in enumerate(ports):
        here, port_name = f"spec.ports[{index}]", value.get("name", "")
        if port_name:
            yield from name(port_name, f"{here}.name", names.dns_label_problems)
            if port_name in seen:
                yield duplicate(f"{here}.name", port_name)
            seen.add(port_name)
        elif len(ports) > 1:
            yield required(f"{here}.name")
        yield from port_number(value.get("port", 0), f"{here}.port")
        yield from one_of(value.get("protocol"), f"{here}.protocol", PROTOCOLS)
        yield from port(value.get("targetPort"), f"{here}.targetPort")
        if "appProtocol" in value:
            yield from qualified(value["appProtocol"], f"{here}.appProtocol")


def _affinity(spec: Object) -> Problems:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    path, when = "spec.sessionAffinityConfig", "when session affinity type is ClientIP"
    yield from one_of(affinity, "spec.sessionAffinity", ("ClientIP", "None"))
    if affinity == "None" and config is not None:
        yield forbidden(path, "must not be set when session affinity is None")
    if affinity != "ClientIP":
        return
    if config is None:
        yield required(path, when)
    elif (client := config.get("clientIP")) is None:
        yield required(f"{path}.clientIP", when)
    elif (seconds := client.get("timeoutSeconds")) is None:
        yield required(f"{path}.clientIP.timeoutSeconds", when)
    elif not 0 < seconds <= _MAX_AFFINITY:
        yield invalid(f"{path}.clientIP.timeoutSeconds", seconds, f"must be greater than 0 and less than {_MAX_AFFINITY}")


def cluster_address_problems(spec: Object) -> Problems:
    """Addresses, families and their policy (`ValidateServiceClusterIPsRelatedFields`)."""
    path = "spec.clusterIPs"
    first, addresses, families = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    if first and addresses and addresses[0] != first:
        yield invalid(path, addresses, "first value must match `clusterIP`")
    elif addresses and not first:
        yield invalid(path, addresses, "must be empty when `clusterIP` is not specified")
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in seen:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
        seen.add(family)
    if "ipFamilyPolicy" in spec:
        yield from one_of(spec["ipFamilyPolicy"], "spec.ipFamilyPolicy", _FAMILY_POLICIES, needed=False)
    bad = False
    for index, value in enumerate(addresses):
        if index == 0 and value == "None":
            if len(addresses) > 1:
                bad = True
                yield invalid(path, addresses, "'None' must be the first and only value")
            continue
        problems = list(address(value, f"{path}[{index}]"))
        bad = bad or bool(problems)
        yield from problems
    if len(addresses) > 2:
        yield invalid(path, addresses, "may only hold up to 2 values")
    if not bad:
        yield from _families_of(addresses, families)


def _families_of(addresses: Sequence[str], families: Sequence[str]) -> Problems:
    if len(addresses) > 1 and (len(addresses) > 2 or _family(addresses[0]) == _family(addresses[1])):
        yield invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")
    if addresses == ["None"]:
        return
    for index, (value, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and _family(value) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(f"spec.clusterIPs[{index}]", value, detail)


def _family(value: str) -> str:
    return "IPv6" if ":" in value else "IPv4"


def _external_address(value: str, path: str) -> Problems:
    if problems := list(address(value, path)):
        yield from problems
        return
    try:
        parsed = parse_address(value)
    except AddressError:
        return
    for bad, text in (
        (parsed.is_unspecified, f"may not be unspecified ({value})"),
        (parsed.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local_unicast, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (parsed.is_link_local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ):
        if bad:
            yield invalid(path, value, text)


def _repeated_ports(ports: Sequence[Object], kind: str) -> Problems:
    if kind == "ClusterIP":
        for index, value in enumerate(ports):
            if value.get("nodePort"):
                yield forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    on_nodes: set[tuple[str, int]] = set()
    for index, value in enumerate(ports):
        if value.get("nodePort"):
            key = (value.get("protocol", ""), value["nodePort"])
            if key in on_nodes:
                yield duplicate(f"spec.ports[{index}].nodePort", value["nodePort"])
            on_nodes.add(key)
    seen: set[tuple[str, int]] = set()
    for index, value in enumerate(ports):
        key = (value.get("protocol", ""), value.get("port", 0))
        if key in seen:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1], "TargetPort": 0, "NodePort": 0}
            yield duplicate(f"spec.ports[{index}]", as_struct(shown))
        seen.add(key)


def _balancer(spec: Object, kind: str) -> Problems:
    if ranges := spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"
        if kind != "LoadBalancer":
            yield forbidden(path, _OF_BALANCERS)
        for index, value in enumerate(ranges):
            yield from cidr(value.strip(), f"{path}[{index}]")
    nodes = "allocateLoadBalancerNodePorts"
    if nodes in spec and kind != "LoadBalancer":
        yield forbidden(f"spec.{nodes}", _OF_BALANCERS)
    if nodes not in spec and kind == "LoadBalancer":
        yield required(nodes)
    if (balancer := spec.get("loadBalancerClass")) is not None:
        if kind != "LoadBalancer":
            yield forbidden("spec.loadBalancerClass", _OF_BALANCERS)
            return
        yield from qualified(balancer, "spec.loadBalancerClass")


def _traffic(spec: Object, kind: str) -> Problems:
    outside, check = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    if kind not in _OUTSIDE and not (kind == "ClusterIP" and spec.get("externalIPs")):
        if outside:
            yield invalid("spec.externalTrafficPolicy", outside, "may only be set for externally-accessible services")
    else:
        yield from one_of(outside, "spec.externalTrafficPolicy", _TRAFFIC)
    if not _needs_health_check(spec):
        if check:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield invalid("spec.healthCheckNodePort", check, detail)
    elif check:
        yield from port_number(check, "spec.healthCheckNodePort")
    inside = spec.get("internalTrafficPolicy")
    if inside is None:
        if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
            yield required("spec.internalTrafficPolicy")
    else:
        yield from one_of(inside, "spec.internalTrafficPolicy", _TRAFFIC, needed=False)
    if "trafficDistribution" in spec:
        yield from one_of(spec["trafficDistribution"], "spec.trafficDistribution", _DISTRIBUTIONS, needed=False)


def _changed_addresses(new: Sequence[str], old: Sequence[str]) -> Problems:
    path = "spec.clusterIPs"
    if len(new) == len(old):
        for index, value in enumerate(old):
            if value != new[index]:
                yield invalid(f"{path}[{index}]", new, "may not change once set")
    elif len(old) > len(new):
        if not new:
            yield invalid(f"{path}[0]", new, "primary clusterIP can not be unset")
        elif new[0] != old[0]:
            yield invalid(f"{path}[0]", new, "may not change once set")
    elif old and old[0] != new[0]:
        yield invalid(f"{path}[0]", new, "may not change once set")


def _changed_balancer_class(spec: Object, before: Object) -> Problems:
    if spec.get("type") != "LoadBalancer" or before.get("type") != "LoadBalancer":
        return
    new, old = spec.get("loadBalancerClass"), before.get("loadBalancerClass")
    if new != old:
        yield invalid("spec.loadBalancerClass", new, "may not change once set")
