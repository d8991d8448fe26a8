"""`ClusterState`: the logical cluster that a request works in, as the registry has to know it."""

from __future__ import annotations

from typing import Final, NamedTuple

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits
from kcp_py.storage.contract import Compare, Operation

CLUSTER_OBJECT: Final = "cluster"
"""The name of the LogicalCluster object in every logical cluster."""


class ClusterState(NamedTuple):
    """One life of one logical cluster.

    Every create carries `guard`, so that nothing is ever written into a cluster that was deleted, made again, or began to terminate
    after the state was read. Updates and deletions carry `life`. A create also carries `create_with`, so that the first object of a
    cluster that does not exist yet creates the cluster in the same transaction.
    """

    name: Name
    uid: str
    """Of the LogicalCluster object: another one after delete and re-creation. Tokens and caches are keyed by it."""
    created_revision: int
    """Revisions before this one belong to an earlier life of the name; 0 where the cluster has no object."""
    created_at: str
    """RFC 3339."""
    terminating: bool = False
    inactive: bool = False
    guard: tuple[Compare, ...] = ()
    create_with: tuple[Operation, ...] = ()
    delete_after: str = ""
    """RFC 3339: until when a deleted cluster can be undeleted. Empty for a cluster that is not deleted, or whose content is going."""
    life: tuple[Compare, ...] = ()
    """Holds for as long as the cluster exists, whatever changes in it, and not for another cluster of the same name."""
    limits: Limits = NO_LIMITS
    """Of the whole cluster."""


class StaleStateError(Exception):
    """What a write relied on has changed meanwhile: the cluster, the CRD of the resource, or the namespace.

    Work it out again and retry.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"changed meanwhile: {key}")
        self.key = key
