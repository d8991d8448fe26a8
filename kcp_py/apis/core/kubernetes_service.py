"""The Service `default/kubernetes`, through which clients inside a cluster find the API server, with its endpoints.

A cluster that serves Services, Endpoints or EndpointSlices has the object of that kind without storing it, like its default namespaces.
Upstream's control plane creates the same objects (k8s.io/kubernetes pkg/controlplane/controller/kubernetesservice and
pkg/controlplane/reconcilers) and creates them again when they are deleted.

There is no service network. The cluster IP is the first address of upstream's default range and leads nowhere; the endpoints are true.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import DefaultObjects

PLACE: Final = "default/kubernetes"
"""Namespace and name of all three objects."""
CLUSTER_IP: Final = "10.0.0.1"
HTTPS_PORT: Final = 443

_SERVICES: Final = GroupResource("", "services")
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


def _default_objects(resource: GroupResource, content: dict[str, Any]) -> DefaultObjects:
    labels = content.pop("labels")

    def objects(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
        metadata = {
            "name": "kubernetes",
            "namespace": "default",
            # It follows from the cluster's, so that it ends with it.
            "uid": str(uuid.uuid5(_UID_SPACE, f"{cluster}/{uid}/{resource}")),
            "creationTimestamp": created_at,
            "labels": labels,
        }
        head = {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": metadata}
        return {PLACE: encode_stored({**head, **content})}

    return objects


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
