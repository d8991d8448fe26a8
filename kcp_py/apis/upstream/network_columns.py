"""What `kubectl get` shows of services, endpoints, ingresses and their kin (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kcp_py.apimachinery.meta.table import AGE, NAME, Column
from kcp_py.apis.typed.cells import (
    NONE,
    UNSET,
    Object,
    at,
    column,
    field,
    integer,
    joined,
    labels_text,
    lasting,
    list_at,
    object_at,
    objects_at,
    selector_text,
    text,
)

_SHOWN: Final = 3


def _shortened(shown: Sequence[str], total: int, none: str) -> str:
    """The first few of many."""
    listed = ",".join(shown[:_SHOWN])
    return f"{listed} + {total - _SHOWN} more..." if total > _SHOWN else listed or none


def _cluster_address(service: Object) -> str:
    addresses = list_at(service, "spec", "clusterIPs")
    return (text(addresses[0]) if addresses else text(at(service, "spec", "clusterIP"))) or NONE


def _balancer(obj: Object) -> list[str]:
    found = {text(entry.get("ip")) or text(entry.get("hostname")) for entry in objects_at(obj, "status", "loadBalancer", "ingress")}
    return sorted(found - {""})


def _external_address(service: Object) -> str:
    given = [text(address) for address in list_at(service, "spec", "externalIPs")]
    match at(service, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return joined(given, NONE)
        case "LoadBalancer":
            return joined([*_balancer(service), *given], "<pending>")
        case "ExternalName":
            return text(at(service, "spec", "externalName"))
        case _:
            return "<unknown>"


def _service_ports(service: Object) -> str:
    pieces = []
    for port in objects_at(service, "spec", "ports"):
        node = integer(port.get("nodePort"))
        pieces.append(f"{integer(port.get('port'))}{f':{node}' if node > 0 else ''}/{text(port.get('protocol'))}")
    return joined(pieces, NONE)


def _endpoints(obj: Object) -> str:
    if not list_at(obj, "subsets"):
        return NONE
    shown = []
    for subset in objects_at(obj, "subsets"):
        addresses = [text(address.get("ip")) for address in objects_at(subset, "addresses")]
        ports = objects_at(subset, "ports")
        if not ports:
            shown += addresses
        for port in ports:
            number = integer(port.get("port"))
            shown += [f"[{address}]:{number}" if ":" in address else f"{address}:{number}" for address in addresses]
    return _shortened(shown, len(shown), "")


def _slice_ports(obj: Object) -> str:
    shown = []
    for port in objects_at(obj, "ports"):
        number, name = port.get("port"), port.get("name")
        shown.append(str(integer(number)) if number is not None else "*" if name is None else text(name))
    return _shortened(shown, len(shown), UNSET)


def _slice_endpoints(obj: Object) -> str:
    shown = [text(address) for endpoint in objects_at(obj, "endpoints") for address in list_at(endpoint, "addresses")]
    return _shortened(shown, len(shown), UNSET)


def _hosts(obj: Object) -> str:
    rules = objects_at(obj, "spec", "rules")
    shown: list[str] = []
    more = False
    for rule in rules:
        more = more or len(shown) == _SHOWN
        if not more and (host := text(rule.get("host"))):
            shown.append(host)
    listed = ",".join(shown) or "*"
    return f"{listed} + {len(rules) - _SHOWN} more..." if more else listed


def _ingress_class(obj: Object) -> str:
    name = text(at(obj, "metadata", "name"))
    default = at(obj, "metadata", "annotations", "ingressclass.kubernetes.io/is-default-class") == "true"
    return f"{name} (default)" if default else name


def _parameters(obj: Object) -> str:
    parameters = object_at(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = text(parameters.get("apiGroup"))
    return f"{text(parameters.get('kind'))}{f'.{group}' if group else ''}/{text(parameters.get('name'))}"


def _parent(obj: Object) -> str:
    parent = object_at(obj, "spec", "parentRef")
    if not parent:
        return NONE
    resource = f"{text(parent.get('resource'))}.{text(parent.get('group'))}".rstrip(".").lower()
    namespace = text(parent.get("namespace"))
    return "/".join([resource, *([namespace] if namespace else []), text(parent.get("name"))])


NETWORK_COLUMNS: Final[Mapping[tuple[str, str], Sequence[Column]]] = {
    ("", "services"): (
        NAME,
        column("Type", field("spec", "type")),
        column("Cluster-IP", _cluster_address),
        column("External-IP", _external_address),
        column("Port(s)", _service_ports),
        AGE,
        column("Selector", lambda obj: labels_text(at(obj, "spec", "selector")), wide=True),
    ),
    ("", "endpoints"): (NAME, column("Endpoints", _endpoints), AGE),
    ("discovery.k8s.io", "endpointslices"): (
        NAME,
        column("AddressType", field("addressType")),
        column("Ports", _slice_ports),
        column("Endpoints", _slice_endpoints),
        AGE,
    ),
    ("networking.k8s.io", "ingresses"): (
        NAME,
        column("Class", field("spec", "ingressClassName", none=NONE)),
        column("Hosts", _hosts),
        column("Address", lambda obj: joined(_balancer(obj))),
        column("Ports", lambda obj: "80, 443" if list_at(obj, "spec", "tls") else "80"),
        AGE,
    ),
    ("networking.k8s.io", "ingressclasses"): (
        NAME._replace(cell=lasting(_ingress_class)),
        column("Controller", field("spec", "controller")),
        column("Parameters", _parameters),
        AGE,
    ),
    ("networking.k8s.io", "ipaddresses"): (NAME, column("ParentRef", _parent)),
    ("networking.k8s.io", "networkpolicies"): (
        NAME,
        column("Pod-Selector", lambda obj: selector_text(at(obj, "spec", "podSelector"))),
        AGE,
    ),
    ("networking.k8s.io", "servicecidrs"): (
        NAME,
        column("CIDRs", lambda obj: joined(list_at(obj, "spec", "cidrs"))),
        AGE,
    ),
}
"""(group, plural) -> columns."""
