"""`ResourceQuota`: nothing is written beyond what the quotas of a namespace or of a cluster allow.

Source: k8s.io/apiserver `pkg/admission/plugin/resourcequota`. Upstream charges a quota before the write, and finds out later what became of
it. Here the transaction of the write charges the quota (`registry.quota`), so this plugin has to judge dry runs alone. With a configuration
it does more (`limitedresources`).
"""

from __future__ import annotations

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.quota import Change, QuotaLedger


class ResourceQuota(AdmissionPlugin):
    """Refuses dry runs of writes that exceed a quota. While it is on, the ledger of quotas refuses the writes themselves."""

    name = "ResourceQuota"
    only_dry_runs = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether the cluster has no quotas."""
        return not self._ledger.counts(cluster, resource)

    async def validate(self, attributes: Attributes) -> None:
        """Judge a dry run.

        Raises:
            StatusError: 403, a quota would be exceeded.
        """
        if not attributes.dry_run or attributes.obj is None or attributes.subresource == "status":
            return
        await self._ledger.check(attributes.cluster, attributes.resource.keys, change_of(attributes))


def change_of(attributes: Attributes) -> Change:
    """A create or update as quotas see it."""
    resource = attributes.resource
    namespace = attributes.namespace if resource.namespaced else ""
    return Change(resource.group_resource, namespace, attributes.name, attributes.old, attributes.obj)
