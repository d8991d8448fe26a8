"""`LogicalClusterLifecycle`: the rules about the object that stands for a logical cluster.

Source: kcp `pkg/admission/logicalcluster` and `pkg/admission/logicalclusterfinalizer`.
"""

from __future__ import annotations

from collections.abc import Callable

from kcp_py.apimachinery import errors
from kcp_py.logicalcluster import ROOT, Name, is_system
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.tenancy import LOGICAL_CLUSTER


class LogicalClusterLifecycle(AdmissionPlugin):
    """Fills `status.URL` of a new LogicalCluster, and refuses to delete the clusters that always exist.

    In kcp `spec.directlyDeletable` and the user's groups decide for every cluster whether it is deleted.
    """

    name = "LogicalClusterLifecycle"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "DELETE"})
    resources = frozenset({LOGICAL_CLUSTER.group_resource})

    def __init__(self, url_of: Callable[[Name], str]) -> None:
        """`url_of` tells where a cluster is reached; empty where that is not known."""
        self._url_of = url_of

    async def mutate(self, attributes: Attributes) -> None:
        """Let a LogicalCluster name its URL from the beginning (kcp: `status.URL`)."""
        if attributes.obj is not None and (url := self._url_of(attributes.request.target.cluster_state.name)):
            attributes.obj["status"]["URL"] = url

    async def validate(self, attributes: Attributes) -> None:
        """Keep `root` and the clusters of the system.

        Raises:
            StatusError: 403, in kcp's words.
        """
        cluster = attributes.request.target.cluster_state.name
        if attributes.operation == "DELETE" and (cluster == ROOT or is_system(cluster)):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "LogicalCluster cannot be deleted")
