"""`metrics.kcp-py.dev`: what logical clusters take.

Belongs here: figures about clusters that tenants may read through the API. Does not belong here: the metrics of the server (telemetry).
"""

from kcp_py.apis.metrics.clusterusages import ClusterUsages, cluster_usages

__all__ = ["ClusterUsages", "cluster_usages"]
