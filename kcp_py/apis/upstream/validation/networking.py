"""Ingresses, their classes, network policies, and the addresses and ranges of services.

Source: kubernetes `pkg/apis/networking/validation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import (
    IMMUTABLE,
    NOT_A_NAME,
    Object,
    Problems,
    address,
    as_struct,
    canonical_cidr,
    cidr,
    domain_path,
    host_name,
    is_address,
    label,
    name,
    one_of,
    path_segment,
    port_name_problems,
    port_number,
    required_name,
    sealed,
    unchanged,
)
from kcp_py.apis.upstream.validation.selectors import selector
from kcp_py.golang.addresses import AddressError, Prefix, parse_prefix

CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_MAX_CONTROLLER: Final = 250
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")


def ingress_problems(ingress: Object) -> Problems:
    """A new ingress."""
    spec = ingress.get("spec") or {}
    yield from _ingress(spec, secret_name=True, wildcard_rules=True)
    given, chosen = (ingress["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION), spec.get("ingressClassName")
    if given is not None and chosen is not None and given != chosen:
        yield invalid(f"annotations.{CLASS_ANNOTATION}", given, "must match `ingressClassName` when both are specified")


def changed_ingress_problems(ingress: Object, old: Object) -> Problems:
    """A changed ingress. What older servers accepted may stay."""
    before = old.get("spec") or {}
    secrets = (tls.get("secretName", "") for tls in before.get("tls") or ())
    rules = (rule for rule in before.get("rules") or () if "*" in rule.get("host", ""))
    yield from _ingress(
        ingress.get("spec") or {},
        secret_name=not any(secret and names.dns_subdomain_problems(secret) for secret in secrets),
        wildcard_rules=not any(any(_http(rule, "")) for rule in rules),
    )


def _ingress(spec: Object, *, secret_name: bool, wildcard_rules: bool) -> Problems:
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        here, host = f"spec.rules[{index}]", rule.get("host", "")
        if host:
            if is_address(host):
                yield invalid(f"{here}.host", host, NOT_A_NAME)
            yield from name(host, f"{here}.host", _host_rule(host))
        if wildcard_rules or "*" not in host:
            yield from _http(rule, here)
    for index, tls in enumerate(spec.get("tls") or ()):
        here = f"spec.tls[{index}]"
        for position, host in enumerate(tls.get("hosts") or ()):
            yield from name(host, f"{here}.hosts[{position}]", _host_rule(host))
        if secret_name and tls.get("secretName"):
            yield from name(tls["secretName"], f"{here}.secretName")
    if "ingressClassName" in spec:
        yield from name(spec["ingressClassName"], "spec.ingressClassName")


def _host_rule(host: str) -> Callable[[str], list[str]]:
    return names.wildcard_subdomain_problems if "*" in host else names.dns_subdomain_problems


def _http(rule: Object, path: str) -> Problems:
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or ()
    if not paths:
        yield required(f"{path}.http.paths")
    for index, entry in enumerate(paths):
        yield from _http_path(entry, f"{path}.http.paths[{index}]")


def _http_path(entry: Object, path: str) -> Problems:
    kind, value = entry.get("pathType"), entry.get("path", "")
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not value.startswith("/") and (value or kind != "ImplementationSpecific"):
        yield invalid(f"{path}.path", value, "must be an absolute path")
    if kind in {"Exact", "Prefix"}:
        for part in _BAD_PARTS:
            if part in value:
                yield invalid(f"{path}.path", value, f"must not contain '{part}'")
        for end in _BAD_ENDS:
            if value.endswith(end):
                yield invalid(f"{path}.path", value, f"cannot end with '{end}'")
    yield from _backend(entry.get("backend") or {}, f"{path}.backend")


def _backend(backend: Object, path: str) -> Problems:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(resource, f"{path}.resource")
    elif service is not None:
        yield from required_name(service.get("name"), f"{path}.service.name", names.dns_label_problems)
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            yield invalid(path, "", "cannot set both port name & port number")
        elif port.get("name"):
            yield from name(port["name"], f"{path}.service.port.name", port_name_problems)
        elif port.get("number"):
            yield from port_number(port["number"], f"{path}.service.port.number")
        else:
            yield required(path, "port name or number is required")
    else:
        yield invalid(path, "", "resource or service backend is required")


def _reference(value: Object, path: str) -> Problems:
    if value.get("apiGroup") is not None:
        yield from name(value["apiGroup"], f"{path}.apiGroup")
    yield from path_segment(value.get("kind"), f"{path}.kind")
    yield from path_segment(value.get("name"), f"{path}.name")


def ingress_class_problems(ingress_class: Object) -> Problems:
    """A class of ingresses."""
    spec = ingress_class.get("spec") or {}
    controller = spec.get("controller", "")
    if names.byte_length(controller) > _MAX_CONTROLLER:
        yield too_long("spec.controller", _MAX_CONTROLLER)
    yield from domain_path(controller, "spec.controller")
    parameters, here = spec.get("parameters"), "spec.parameters"
    if parameters is None:
        return
    yield from _reference(parameters, here)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        yield required(f"{here}.scope")
    elif scope == "Namespace":
        if namespace is None:
            yield required(f"{here}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from label(namespace, f"{here}.namespace")
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(f"{here}.namespace", "`parameters.scope` is set to 'Cluster'")
    else:
        yield not_supported(f"{here}.scope", scope, ("Cluster", "Namespace"))


def changed_ingress_class_problems(ingress_class: Object, old: Object) -> Problems:
    """A changed class of ingresses."""
    spec, before = ingress_class.get("spec") or {}, old.get("spec") or {}
    yield from unchanged(spec.get("controller", ""), before.get("controller", ""), "spec.controller")
    yield from ingress_class_problems(ingress_class)


def network_policy_problems(policy: Object, old: Object | None = None) -> Problems:
    """A network policy. Ranges that the stored one has may stay."""
    spec = policy.get("spec") or {}
    stored = frozenset(_ranges((old or {}).get("spec") or {}))
    yield from selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            here = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{here}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{here}.{peers}[{position}]", stored)
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        yield from one_of(kind, f"spec.policyTypes[{index}]", _TYPES, needed=False)


def _ranges(spec: Object) -> list[str]:
    found: list[str] = []
    for direction, peers in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                found += [block["cidr"], *(block.get("except") or ())] if block.get("cidr") else ()
    return found


def _policy_port(entry: Object, path: str) -> Problems:
    if "protocol" in entry:
        yield from one_of(entry["protocol"], f"{path}.protocol", _PROTOCOLS, needed=False)
    port, end = entry.get("port"), entry.get("endPort")
    if isinstance(port, int):
        yield from port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                yield invalid(f"{path}.endPort", end, "must be greater than or equal to `port`")
            yield from port_number(end, f"{path}.endPort")
        return
    if end is not None:
        yield invalid(f"{path}.endPort", end, f"may not be specified when `port` is {'not specified' if port is None else 'non-numeric'}")
    if port is not None:
        yield from name(port, f"{path}.port", port_name_problems)


def _peer(peer: Object, path: str, stored: frozenset[str]) -> Problems:
    for member in ("podSelector", "namespaceSelector"):
        yield from selector(peer.get(member), f"{path}.{member}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block(block, f"{path}.ipBlock", stored)
    given = [member for member in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(member) is not None]
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and block is not None:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: Object, path: str, stored: frozenset[str]) -> Problems:
    whole = block.get("cidr", "")
    if not whole:
        yield required(f"{path}.cidr")
        return
    if whole not in stored:
        yield from cidr(whole, f"{path}.cidr")
    outer = _parsed(whole)
    if outer is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        here = f"{path}.except[{index}]"
        if text not in stored:
            yield from cidr(text, here)
        inner = _parsed(text)
        if inner is not None and not (outer.contains(inner.masked.address) and outer.length < inner.length):
            yield invalid(here, text, "must be a strict subset of `cidr`")


def _parsed(text: str) -> Prefix | None:
    try:
        return parse_prefix(text)
    except AddressError:
        return None


def ip_address_problems(address: Object) -> Problems:
    """The use of an IP address."""
    parent, here = (address.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        yield required(here)
        return
    if parent.get("group"):
        yield from name(parent["group"], f"{here}.group")
    yield from path_segment(parent.get("resource"), f"{here}.resource")
    yield from path_segment(parent.get("name"), f"{here}.name")
    if parent.get("namespace"):
        yield from name(parent["namespace"], f"{here}.namespace", names.path_segment_problems)


def changed_ip_address_problems(address: Object, old: Object) -> Problems:
    """A changed use of an IP address."""
    parent, before = ((value.get("spec") or {}).get("parentRef") for value in (address, old))
    yield from ip_address_problems(address)
    yield from sealed(parent, before, "spec.parentRef")


def service_cidr_problems(ranges: Object) -> Problems:
    """The ranges of addresses of services."""
    return _cidrs((ranges.get("spec") or {}).get("cidrs") or ())


def _cidrs(values: tuple[str, ...] | list[str]) -> Problems:
    here = "spec.cidrs"
    if not values:
        yield required(here, "at least one CIDR required")
        return
    if len(values) > 2:
        yield invalid(here, as_struct({"CIDRs": values}), "may only hold up to 2 values")
        return
    for index, value in enumerate(values):
        yield from canonical_cidr(value, f"{here}[{index}]")
    families = [prefix.address.family for value in values if (prefix := _parsed(value))]
    if len(families) == 2 and families[0] == families[1]:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(here, values, detail)


def changed_service_cidr_problems(ranges: Object, old: Object) -> Problems:
    """Changed ranges: a second family can be added."""
    new, before = (list((value.get("spec") or {}).get("cidrs") or ()) for value in (ranges, old))
    here = "spec.cidrs"
    if len(new) == len(before):
        for index, (value, stored) in enumerate(zip(new, before, strict=True)):
            yield from unchanged(value, stored, f"{here}[{index}]")
    elif len(before) == 1 and len(new) == 2:
        yield from unchanged(new[0], before[0], f"{here}[0]")
        yield from _cidrs(new)
    else:
        yield invalid(here, new or None, IMMUTABLE)


def ingress_status_problems(ingress: Object, old: Object) -> Problems:
    """Where an ingress is reached."""
    balancer, before = ((value.get("status") or {}).get("loadBalancer") or {} for value in (ingress, old))
    stored = {entry.get("ip") for entry in before.get("ingress") or ()}
    for index, entry in enumerate(balancer.get("ingress") or ()):
        here = f"status.loadBalancer.ingress[{index}]"
        if entry.get("ip") and entry["ip"] not in stored:
            yield from address(entry["ip"], f"{here}.ip")
        if entry.get("hostname"):
            yield from host_name(entry["hostname"], f"{here}.hostname")
