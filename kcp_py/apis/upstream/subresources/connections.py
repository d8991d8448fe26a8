"""Connections to pods, services and nodes: `log`, `exec`, `attach`, `portforward` and `proxy`.

Upstream forwards them to kubelets and pods, after it has looked for their addresses. The checks up to that point are the same here. There
are no nodes behind the Node objects of a cluster, and the server does not connect to addresses that tenants wrote: a request that upstream
would forward is answered with 501.

Source: kubernetes `pkg/registry/core/pod/strategy.go` (`LogLocation`, `streamLocation`, `ResourceLocation`), `pkg/registry/core/pod/rest`,
`pkg/registry/core/service/storage/storage.go` (`ResourceLocation`), `pkg/registry/core/node/strategy.go` (`ResourceLocation`),
`pkg/kubelet/client` (`GetConnectionInfo`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.upstream.subresources.objects import ClusterObjects, Found
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.writerequest import Resolved

Query = Mapping[str, Sequence[str]]

_PODS: Final = GroupResource("", "pods")
_NODES: Final = GroupResource("", "nodes")
_SERVICES: Final = GroupResource("", "services")
_ENDPOINTS: Final = GroupResource("", "endpoints")
_NO_NODES: Final = "{} is not available: this server stores objects, it has no nodes on which pods could run"
_SCHEMES: Final = frozenset({"", "http", "https"})


class _Connections:
    """What the connections to one kind of objects have in common."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects: Final = objects

    async def _node(self, target: Resolved, name: str, named: GroupResource) -> None:
        """Find the address of a node, which is not used.

        Raises:
            StatusError: 404, named as `named`; 500 for a node without addresses, 501 for any other.
        """
        try:
            node = await self._objects.find(target.cluster_state, _NODES, "", name)
        except StatusError as error:
            raise errors.not_found(named, name) if error.code == 404 else error from error
        if not (node.obj.get("status") or {}).get("addresses"):
            raise StatusError(500, "", "no preferred addresses found; known addresses: []")
        raise unavailable(target)


class PodLog(_Connections):
    """`pods/log`: empty for a pod without a node."""

    async def connect(self, target: Resolved, query: Query) -> None:
        """`Connections.connect`."""
        _check_log_options(target.name, query)
        node = await _node_of(self._objects, target, _first(query, "container"))
        if node:
            await self._node(target, node, _PODS)


class PodStreams(_Connections):
    """`pods/exec`, `attach` and `portforward`."""

    async def connect(self, target: Resolved, query: Query) -> None:
        """`Connections.connect`."""
        if target.subresource == "portforward":
            for text in query.get("ports", ()):
                if not (text.isascii() and text.isdigit()):
                    problem = f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
                    raise errors.bad_request(f"cannot convert to []int32: {problem}")
            pod = await self._objects.find(target.cluster_state, _PODS, target.namespace, target.name)
            node = pod.obj["spec"].get("nodeName", "")
        else:
            node = await _node_of(self._objects, target, _first(query, "container"))
        if not node:
            raise errors.bad_request(f"pod {target.name} does not have a host assigned")
        await self._node(target, node, _PODS)


class PodProxy(_Connections):
    """`pods/proxy`."""

    async def connect(self, target: Resolved, query: Query) -> None:
        """`Connections.connect`."""
        del query
        name, _ = _split(target.name, "pod")
        pod = await self._objects.find(target.cluster_state, _PODS, target.namespace, name)
        addresses = (pod.obj.get("status") or {}).get("podIPs") or [{}]
        if not _is_global_unicast(addresses[0].get("ip", "")):
            raise errors.bad_request("address not allowed")
        raise unavailable(target)


class ServiceProxy(_Connections):
    """`services/proxy`."""

    async def connect(self, target: Resolved, query: Query) -> None:
        """`Connections.connect`."""
        del query
        name, port = _split(target.name, "service")
        none = errors.service_unavailable(f'no endpoints available for service "{name}"')
        if port.isascii() and port.isdigit():
            service = await self._objects.find(target.cluster_state, _SERVICES, target.namespace, name)
            ports = [one for one in service.obj["spec"].get("ports") or () if one.get("port") == int(port)]
            if not ports:
                raise errors.service_unavailable(f'no service port {port} found for service "{name}"')
            port = ports[0].get("name", "")
        try:
            endpoints = await self._objects.find(target.cluster_state, _ENDPOINTS, target.namespace, name)
        except StatusError as error:
            raise none if error.code == 404 else error from error
        for subset in endpoints.obj.get("subsets") or ():
            if subset.get("addresses") and any(one.get("name", "") == port for one in subset.get("ports") or ()):
                raise unavailable(target)
        raise none


class NodeProxy(_Connections):
    """`nodes/proxy`."""

    async def connect(self, target: Resolved, query: Query) -> None:
        """`Connections.connect`."""
        del query
        name, _ = _split(target.name, "node")
        await self._node(target, name, _NODES)


def unavailable(target: Resolved) -> StatusError:
    """501 for a connection that upstream would make."""
    return StatusError(501, "NotImplemented", _NO_NODES.format(f"{target.resource.resource}/{target.subresource}"))


async def _node_of(objects: ClusterObjects, target: Resolved, container: str) -> str:
    """The node of a pod that has a container. The container may be left out where there is one only."""
    pod: Found = await objects.find(target.cluster_state, _PODS, target.namespace, target.name)
    spec: Mapping[str, Any] = pod.obj["spec"]
    known = [one["name"] for member in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(member) or ()]
    if container and container not in known:
        raise errors.bad_request(f"container {container} is not valid for pod {target.name}")
    if not container and len(spec.get("containers") or ()) != 1:
        text = f"a container name must be specified for pod {target.name}"
        raise errors.bad_request(f"{text}, choose one of: [{' '.join(known)}]" if spec.get("containers") else text)
    node: str = spec.get("nodeName") or ""
    return node


def _check_log_options(pod: str, query: Query) -> None:
    """Refuse options of `pods/log`.

    Raises:
        StatusError: 400 for text in the place of a number or a time, 422 for values out of bounds.
    """
    numbers = {name: _integer(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds")}
    since = _first(query, "sinceTime")
    if since:
        try:
            parse_time(since)
        except ValueError:
            text = go_quote(since)
            problem = f'parsing time {text} as "2006-01-02T15:04:05Z07:00": cannot parse {text} as "2006"'
            raise errors.bad_request(problem) from None
    if problems := list(_log_problems(numbers, since=bool(since), stream="stream" in query)):
        raise errors.invalid("PodLogOptions", pod, problems)


def _log_problems(numbers: Mapping[str, int | None], *, since: bool, stream: bool) -> Iterator[FieldError]:
    lines, size, seconds = numbers["tailLines"], numbers["limitBytes"], numbers["sinceSeconds"]
    if lines is not None and lines < 0:
        yield invalid("tailLines", lines, "must be greater than or equal to 0")
    if size is not None and size < 1:
        yield invalid("limitBytes", size, "must be greater than 0")
    if seconds is not None and since:
        yield forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        yield invalid("sinceSeconds", seconds, "must be greater than 0")
    if stream:
        yield forbidden("stream", "may not be specified")


def _first(query: Query, name: str) -> str:
    return query[name][0] if name in query else ""


def _integer(query: Query, name: str) -> int | None:
    text = _first(query, name)
    if name not in query:
        return None
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        raise errors.bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    if len(digits) > 19 or not -(2**63) <= (number := int(text)) < 2**63:
        raise errors.bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return number


def _split(text: str, noun: str) -> tuple[str, str]:
    """Name and port of `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT` (apimachinery `net.SplitSchemeNamePort`)."""
    parts = text.split(":")
    if len(parts) < 3:
        scheme, name, port = "", parts[0], parts[1] if len(parts) == 2 else ""
    else:
        scheme, name, port = parts[0], parts[1], parts[2]
    if len(parts) > 3 or not name or scheme not in _SCHEMES:
        raise errors.bad_request(f"invalid {noun} request {go_quote(text)}")
    return name, port


def _is_global_unicast(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_multicast or address.is_loopback or address.is_link_local or address.is_unspecified or text == "255.255.255.255")
