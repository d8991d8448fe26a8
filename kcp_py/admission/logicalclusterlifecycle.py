"""`LogicalClusterLifecycle`: the rules about the object that stands for a logical cluster.

Source: kcp `pkg/admission/logicalcluster` and `pkg/admission/logicalclusterfinalizer`.
"""

from __future__ import annotations

from typing import Protocol

from kcp_py.apimachinery import errors
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.admission import AdmissionPlugin, Attributes


class Clusters(Protocol):
    """The part of `tenancy.LogicalClusters` that the plugin asks."""

    @property
    def prefix(self) -> str:
        """Of the keys of LogicalClusters."""
        ...

    def url_of(self, cluster: Name) -> str:
        """Where a cluster is reached; empty where that is not known."""
        ...


class LogicalClusterLifecycle(AdmissionPlugin):
    """Fills `status.URL` of a new LogicalCluster, and refuses to delete the clusters that always exist.

    In kcp `spec.directlyDeletable` and the user's groups decide for every cluster whether it is deleted.
    """

    name = "LogicalClusterLifecycle"
    conforming = True

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def mutate(self, attributes: Attributes) -> None:
        """Let a LogicalCluster name its URL from the beginning (kcp: `status.URL`)."""
        if attributes.operation != "CREATE" or attributes.resource.keys.prefix != self._clusters.prefix:
            return
        if (url := self._clusters.url_of(attributes.request.target.scope.name)) and attributes.obj is not None:
            attributes.obj["status"]["URL"] = url

    async def validate(self, attributes: Attributes) -> None:
        """Keep `root` and the clusters of the system.

        Raises:
            StatusError: 403, in kcp's words.
        """
        if attributes.operation != "DELETE" or attributes.resource.keys.prefix != self._clusters.prefix:
            return
        cluster = attributes.request.target.scope.name
        if cluster == ROOT or is_system(cluster):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "LogicalCluster cannot be deleted")
