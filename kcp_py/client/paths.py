"""Paths of requests for resources."""

from __future__ import annotations

from urllib.parse import quote

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import ClusterSelection, Wildcard


def cluster_path(cluster: ClusterSelection) -> str:
    """The prefix of every path of a cluster, or of all clusters."""
    return "/clusters/*" if isinstance(cluster, Wildcard) else f"/clusters/{cluster}"


def resource_path(
    cluster: ClusterSelection, resource: GroupVersionResource, namespace: str, name: str = "", *, subresource: str = ""
) -> str:
    """The path of a collection, an object or a subresource, percent-encoded.

    Args:
        cluster: one cluster or all.
        resource: the resource and its version.
        namespace: empty for cluster-scoped resources and for all namespaces.
        name: empty for the collection.
        subresource: empty for the object itself.
    """
    root = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    named = f"/{quote(name, safe='')}" if name else ""
    below = f"/{subresource}" if subresource else ""
    return f"{cluster_path(cluster)}/{root}{place}/{resource.resource}{named}{below}"
