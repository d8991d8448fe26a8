"""Endpoints and endpoint slices.

Source: kubernetes `pkg/apis/core/validation` (`ValidateEndpoints`), `pkg/apis/discovery/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, invalid, required, too_many
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.containers import PROTOCOLS
from kcp_py.apis.upstream.validation.fields import (
    Object,
    Problems,
    address,
    canonical_address,
    endpoint_address,
    label,
    name,
    one_of,
    port_number,
    qualified,
    sealed,
)
from kcp_py.apis.upstream.validation.selectors import labels

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST: Final = {"addresses": 100, "deprecatedTopology": 16, "endpoints": 1000, "forNodes": 8, "forZones": 8, "ports": 20000}


def endpoints_problems(endpoints: Object) -> Problems:
    """The endpoints of a service."""
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        here = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(here, "must specify `addresses` or `notReadyAddresses`")
        for member in ("addresses", "notReadyAddresses"):
            for position, entry in enumerate(subset.get(member) or ()):
                yield from _address(entry, f"{here}.{member}[{position}]")
        ports = subset.get("ports") or ()
        for position, port in enumerate(ports):
            yield from _port(port, f"{here}.ports[{position}]", named=len(ports) > 1)


def changed_endpoints_problems(endpoints: Object, old: Object) -> Problems:
    """Changed endpoints. Those that older servers accepted may stay."""
    if (endpoints.get("subsets") or []) != (old.get("subsets") or []):
        yield from endpoints_problems(endpoints)


def _address(entry: Object, path: str) -> Problems:
    value = entry.get("ip", "")
    yield from address(value, f"{path}.ip")
    if entry.get("hostname"):
        yield from label(entry["hostname"], f"{path}.hostname")
    if "nodeName" in entry:
        yield from name(entry["nodeName"], f"{path}.nodeName")
    yield from endpoint_address(value, f"{path}.ip")


def _port(port: Object, path: str, *, named: bool) -> Problems:
    if port.get("name"):
        yield from label(port["name"], f"{path}.name")
    elif named:
        yield required(f"{path}.name")
    yield from port_number(port.get("port", 0), f"{path}.port")
    yield from one_of(port.get("protocol"), f"{path}.protocol", PROTOCOLS)
    if "appProtocol" in port:
        yield from qualified(port["appProtocol"], f"{path}.appProtocol")


def slice_problems(endpoint_slice: Object) -> Problems:
    """A new endpoint slice."""
    yield from _slice_ports(endpoint_slice.get("ports") or ())
    yield from _endpoints(endpoint_slice)
    yield from one_of(endpoint_slice.get("addressType"), "addressType", _ADDRESS_TYPES)


def changed_slice_problems(endpoint_slice: Object, old: Object) -> Problems:
    """A changed endpoint slice. Endpoints that older servers accepted may stay."""
    yield from _slice_ports(endpoint_slice.get("ports") or ())
    if (endpoint_slice.get("endpoints") or []) != (old.get("endpoints") or []):
        yield from _endpoints(endpoint_slice)
    yield from one_of(endpoint_slice.get("addressType"), "addressType", _ADDRESS_TYPES)
    yield from sealed(endpoint_slice.get("addressType", ""), old.get("addressType", ""), "addressType")


def _slice_ports(ports: Sequence[Object]) -> Problems:
    if len(ports) > _MOST["ports"]:
        yield too_many("ports", len(ports), _MOST["ports"])
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here, port_name = f"ports[{index}]", port.get("name", "")
        if port_name:
            yield from label(port_name, f"{here}.name")
        if port_name in seen:
            yield duplicate(f"{here}.name", port_name)
        seen.add(port_name)
        yield from one_of(port.get("protocol"), f"{here}.protocol", PROTOCOLS, needed="protocol" not in port)
        if "appProtocol" in port:
            yield from qualified(port["appProtocol"], f"{here}.appProtocol")


def _endpoints(endpoint_slice: Object) -> Problems:
    endpoints = endpoint_slice.get("endpoints") or ()
    if len(endpoints) > _MOST["endpoints"]:
        yield too_many("endpoints", len(endpoints), _MOST["endpoints"])
        return
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint(endpoint, f"endpoints[{index}]", endpoint_slice.get("addressType", ""))


def _endpoint(endpoint: Object, path: str, kind: str) -> Problems:
    addresses = endpoint.get("addresses") or ()
    for index, value in enumerate(addresses):
        yield from _slice_address(value, f"{path}.addresses", index, kind)
    if "nodeName" in endpoint:
        yield from name(endpoint["nodeName"], f"{path}.nodeName")
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MOST["deprecatedTopology"]:
        yield too_many(f"{path}.deprecatedTopology", len(topology), _MOST["deprecatedTopology"])
    yield from labels(topology, f"{path}.deprecatedTopology")
    if "hostname" in endpoint:
        yield from label(endpoint["hostname"], f"{path}.hostname")
    hints = endpoint.get("hints") or {}
    yield from _hints(hints.get("forZones") or (), f"{path}.hints.forZones", "forZones", names.label_value_problems)
    if len(hints.get("forZones") or ()) <= _MOST["forZones"]:
        yield from _hints(hints.get("forNodes") or (), f"{path}.hints.forNodes", "forNodes", names.dns_subdomain_problems)
    if not addresses:
        yield required(f"{path}.addresses")
    elif len(addresses) > _MOST["addresses"]:
        yield too_many(f"{path}.addresses", len(addresses), _MOST["addresses"])


def _slice_address(value: str, path: str, index: int, kind: str) -> Problems:
    here = f"{path}[{index}]"
    if kind == "FQDN":
        yield from _domain_name(value, here)
    elif kind in {"IPv4", "IPv6"}:
        problems = list((address if kind == "IPv4" else canonical_address)(value, here))
        yield from problems
        if not problems:
            if (":" in value) != (kind == "IPv6"):
                yield invalid(path, value, f"must be an {kind} address")
            yield from endpoint_address(value, here)


def _domain_name(value: str, path: str) -> Problems:
    """`IsFullyQualifiedDomainName`."""
    if not value:
        yield required(path)
        return
    whole = value.removesuffix(".")
    if problems := names.dns_subdomain_problems(whole):
        yield invalid(path, whole, ",".join(problems))
    elif "." not in whole:
        yield invalid(path, whole, "should be a domain with at least two segments separated by dots")
    else:
        for part in whole.split("."):
            if problems := names.dns_label_problems(part):
                yield invalid(path, part, ",".join(problems))
                return


def _hints(entries: Sequence[Object], path: str, member: str, rule: Callable[[str], list[str]]) -> Problems:
    if len(entries) > _MOST[member]:
        yield too_many(path, len(entries), _MOST[member])
        return
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        here, value = f"{path}[{index}].name", entry.get("name", "")
        if value in seen:
            yield duplicate(here, value)
        seen.add(value)
        yield from name(value, here, rule)
