"""Controller `logicalclusters`: a logical cluster that is deleted takes everything in it along.

Source: kcp `pkg/reconciler/core/logicalclusterdeletion`: phase Deleting, condition WorkspaceContentDeleted, the finalizer
`core.kcp.io/logicalcluster-deletion`.
"""

from __future__ import annotations

from typing import Any, Final

from kcp_py.controllers.content import delete_cluster_content
from kcp_py.controllers.deletion import DeletionController, finalizers_remain
from kcp_py.controllers.queue import Key
from kcp_py.registry.builtin.logicalclusters import DELETION_FINALIZER
from kcp_py.tenancy import LOGICAL_CLUSTER

CONTENT_DELETED: Final = "WorkspaceContentDeleted"


class LogicalClusterController(DeletionController):
    """Empties terminating clusters."""

    name = "logicalclusters"
    resource = LOGICAL_CLUSTER
    per_cluster = 1

    async def _empty(self, key: Key, obj: dict[str, Any]) -> int:
        finalizers = obj["metadata"].get("finalizers") or ()
        if DELETION_FINALIZER not in finalizers:
            return 0
        status = obj.get("status") or {}
        if status.get("terminators"):
            return 0  # each terminator that is done with changes the object, which brings it here again
        if status.get("phase") != "Deleting":
            obj = await self._client.update_status(key.cluster, self.resource, {**obj, "status": {**status, "phase": "Deleting"}})
        content = await delete_cluster_content(self._client, key.cluster)
        if content.resources:
            condition = {
                "type": CONTENT_DELETED,
                "status": "False",
                "severity": "Info",
                "reason": "SomeFinalizersRemain",
                "message": finalizers_remain(content.finalizers, "logical cluster"),
            }
            await self._report(key, obj, condition)
            return content.objects
        if finalizers != [DELETION_FINALIZER]:
            # Others still hold the object, and can read that the content is gone.
            await self._report(key, obj, {"type": CONTENT_DELETED, "status": "True"})
        await self._let_go(key, obj, DELETION_FINALIZER)
        return 0
