"""The life of logical clusters: existence, creation and deletion.

Belongs here: the LogicalCluster object as the life of a cluster, and the registry's view of it (`ClusterState`). Does not belong
here: HTTP, the content of clusters, authorization.
"""

from kcp_py.tenancy.clusters import LogicalClusters
from kcp_py.tenancy.logicalcluster import LOGICAL_CLUSTER, new_logical_cluster

__all__ = ["LOGICAL_CLUSTER", "LogicalClusters", "new_logical_cluster"]
