"""The LogicalCluster object (core.kcp.io/v1alpha1): one in every logical cluster, named `cluster`.

It exists exactly as long as the cluster does.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apis.kcp.logicalclusters import DELETION_FINALIZER, NAME, PHASE_LABEL
from kcp_py.logicalcluster import Name
from kcp_py.storage.keys import ResourceKeys, resource_keys

LOGICAL_CLUSTER: Final = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")


def logical_cluster_keys(root: str) -> ResourceKeys:
    """The keys of LogicalClusters."""
    return resource_keys(root, LOGICAL_CLUSTER.group, LOGICAL_CLUSTER.resource, namespaced=False)


def new_logical_cluster(cluster: Name, uid: str, created_at: str, *, url: str) -> dict[str, Any]:
    """The object of a new cluster without a type, initializers or owner; the cluster is ready at once.

    Args:
        cluster: the name.
        uid: the uid of the object.
        created_at: RFC 3339.
        url: the URL of the server; empty if it is unknown.
    """
    return {
        "apiVersion": f"{LOGICAL_CLUSTER.group}/{LOGICAL_CLUSTER.version}",
        "kind": "LogicalCluster",
        "metadata": {
            "name": NAME,
            "uid": uid,
            "creationTimestamp": created_at,
            "generation": 1,
            "finalizers": [DELETION_FINALIZER],
            "labels": {PHASE_LABEL: "Ready"},
        },
        "spec": {"directlyDeletable": True},
        "status": {"phase": "Ready", **({"URL": cluster_url(url, cluster)} if url else {})},
    }


def cluster_url(url: str, cluster: Name) -> str:
    """The URL of a cluster on the server at `url`."""
    return f"{url}/clusters/{cluster}"
