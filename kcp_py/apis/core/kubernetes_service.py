"""The Service `default/kubernetes`, through which clients inside a cluster find the API server, with its endpoints.

A cluster that serves Services, Endpoints or EndpointSlices has the object of that kind without storing it, like its default namespaces.
Upstream's control plane creates the same objects (k8s.io/kubernetes pkg/controlplane/controller/kubernetesservice and
pkg/controlplane/reconcilers) and creates them again when they are deleted.

There is no service network. The cluster IP is the first address of the range and leads nowhere; the endpoints are true. The ServiceCIDR
`kubernetes` is the range, and an IPAddress says which service has the address (pkg/controlplane/controller/defaultservicecidr and
pkg/registry/core/service/ipallocator).
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import DefaultObjects

PLACE: Final = "default/kubernetes"
"""Namespace and name of all three objects."""
RANGE: Final = "10.0.0.0/24"
"""Upstream's default."""
CLUSTER_IP: Final = "10.0.0.1"
HTTPS_PORT: Final = 443

_SERVICES: Final = GroupResource("", "services")
_RANGES: Final = GroupResource("networking.k8s.io", "servicecidrs")
_ADDRESSES: Final = GroupResource("networking.k8s.io", "ipaddresses")
_UID_SPACE: Final = uuid.UUID("6b637020-7079-5365-8276-696365737321")

_Content = Callable[[str, int], dict[str, Any]]
"""(host, port) -> labels and everything outside of the metadata."""


def kubernetes_service(url: str, cluster_ip: str = CLUSTER_IP) -> Mapping[GroupResource, DefaultObjects]:
    """What each of the three resources has in every cluster that serves it.

    Args:
        url: of the server, as clients reach it: `https://HOST:PORT`.
        cluster_ip: of the service.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or HTTPS_PORT
    contents = {resource: content(host, port) for resource, content in _CONTENTS.items()}
    family = f"IPv{ipaddress.ip_address(cluster_ip).version}"
    contents[_SERVICES]["spec"] |= {"clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ipFamilies": [family]}
    return {resource: _default_objects(resource, content) for resource, content in contents.items()}


def service_network(ranges: Sequence[str] = (RANGE,)) -> Mapping[GroupResource, DefaultObjects]:
    """The range of addresses of services as an object, and the address of the service `kubernetes`, in every cluster that serves them.

    Args:
        ranges: networks; the first address of the first one is that of the service.
    """
    address = ipaddress.ip_network(ranges[0])[1]
    family = {"ipaddress.kubernetes.io/ip-family": f"IPv{address.version}", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
    ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
    networking = {"apiVersion": "networking.k8s.io/v1"}

    def service_ranges(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        metadata = _metadata(_RANGES, cluster, uid, created_at)
        status = {"conditions": [{"lastTransitionTime": created_at, **ready}]}
        found = {**networking, "kind": "ServiceCIDR", "metadata": metadata, "spec": {"cidrs": list(ranges)}, "status": status}
        return {"kubernetes": encode_stored(found)}

    def addresses(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        metadata = {**_metadata(_ADDRESSES, cluster, uid, created_at), "name": str(address), "labels": family}
        reference = {"resource": "services", "namespace": "default", "name": "kubernetes"}
        return {str(address): encode_stored({**networking, "kind": "IPAddress", "metadata": metadata, "spec": {"parentRef": reference}})}

    return {_RANGES: service_ranges, _ADDRESSES: addresses}


def _default_objects(resource: GroupResource, content: dict[str, Any]) -> DefaultObjects:
    labels = content.pop("labels")

    def objects(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        metadata = {**_metadata(resource, cluster, uid, created_at), "namespace": "default", "labels": labels}
        head = {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": metadata}
        return {PLACE: encode_stored({**head, **content})}

    return objects


def _metadata(resource: GroupResource, cluster: str, uid: str, created_at: str) -> dict[str, Any]:
    # The uid follows from the cluster's, so that it ends with it.
    own = str(uuid.uuid5(_UID_SPACE, f"{cluster}/{uid}/{resource}"))
    return {"name": "kubernetes", "uid": own, "creationTimestamp": created_at}


def _service(_host: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": HTTPS_PORT, "targetPort": port}],
            "clusterIP": "",
            "clusterIPs": [],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def _endpoints(host: str, port: int) -> dict[str, Any]:
    content: dict[str, Any] = {"apiVersion": "v1", "kind": "Endpoints", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}
    if _address_type(host) != "FQDN":
        content["subsets"] = [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    return content


def _endpoint_slice(host: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "labels": {"kubernetes.io/service-name": "kubernetes"},
        "addressType": _address_type(host),
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}],
    }


def _address_type(host: str) -> str:
    try:
        return f"IPv{ipaddress.ip_address(host).version}"
    except ValueError:
        return "FQDN"


_CONTENTS: Final[Mapping[GroupResource, _Content]] = {
    _SERVICES: _service,
    GroupResource("", "endpoints"): _endpoints,
    GroupResource("discovery.k8s.io", "endpointslices"): _endpoint_slice,
}
