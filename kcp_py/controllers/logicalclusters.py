"""Controller `logicalclusters`: a logical cluster that is deleted takes everything in it along.

Source: kcp `pkg/reconciler/core/logicalclusterdeletion`: phase Deleting, condition WorkspaceContentDeleted, the finalizer
`core.kcp.io/logicalcluster-deletion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Change, Client, Remaining
from kcp_py.controllers.conditions import with_condition
from kcp_py.controllers.content import LOGICAL_CLUSTERS, delete_cluster_content
from kcp_py.controllers.queue import Key

OBJECT_NAME: Final = "cluster"
DELETION_FINALIZER: Final = "core.kcp.io/logicalcluster-deletion"
CONTENT_DELETED: Final = "WorkspaceContentDeleted"
_DELETION: Final = b'"deletionTimestamp":"'


class LogicalClusterController:
    """Empties terminating clusters. While one terminates nothing can be created in it, so what is found empty stays empty."""

    name = "logicalclusters"
    resource = LOGICAL_CLUSTERS
    per_cluster = 1

    def __init__(self, client: Client, *, now: Callable[[], str]) -> None:
        self._client = client
        self._now = now

    def wanted(self, value: bytes) -> bool:
        """Clusters that were being deleted when the server stopped."""
        return _DELETION in value

    def keys(self, change: Change) -> Iterable[Key]:
        """The cluster's own object, once it is being deleted."""
        if change.value is not None and _DELETION in change.value:
            yield Key(change.cluster, change.name)

    async def reconcile(self, key: Key) -> int:
        try:
            obj = await self._client.get(key.cluster, LOGICAL_CLUSTERS, "", key.name)
        except StatusError as error:
            if error.code == 404:
                return 0
            raise
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or DELETION_FINALIZER not in (metadata.get("finalizers") or ()):
            return 0
        status = obj.get("status") or {}
        if status.get("terminators"):
            return 0  # each terminator that is done with changes the object, which brings it here again
        if status.get("phase") != "Deleting":
            obj = await self._client.update_status(key.cluster, LOGICAL_CLUSTERS, {**obj, "status": {**status, "phase": "Deleting"}})
        remaining = await delete_cluster_content(self._client, key.cluster)
        if remaining.objects:
            await self._report(key, obj, _content_remains(remaining))
            return remaining.objects
        if metadata["finalizers"] != [DELETION_FINALIZER]:
            # Others still hold the object, and can read that the content is gone.
            await self._report(key, obj, {"type": CONTENT_DELETED, "status": "True"})
        await self._client.remove_finalizer(key.cluster, LOGICAL_CLUSTERS, "", key.name, finalizer=DELETION_FINALIZER, uid=metadata["uid"])
        return 0

    async def _report(self, key: Key, obj: dict[str, Any], condition: dict[str, Any]) -> None:
        status = with_condition(obj.get("status") or {}, condition, self._now())
        if status is not None:
            await self._client.update_status(key.cluster, LOGICAL_CLUSTERS, {**obj, "status": status})


def _content_remains(remaining: Remaining) -> dict[str, Any]:
    waiting = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remaining.finalizers.items()))
    return {
        "type": CONTENT_DELETED,
        "status": "False",
        "severity": "Info",
        "reason": "SomeFinalizersRemain",
        "message": f"Some content in the logical cluster has finalizers remaining: {waiting}",
    }
