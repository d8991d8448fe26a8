"""Controller `logicalcluster-controller`: a logical cluster that is deleted takes everything in it along.

Source: kcp `pkg/reconciler/core/logicalclusterdeletion`: phase Deleting, condition WorkspaceContentDeleted, the finalizer
`core.kcp.io/logicalcluster-deletion`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.kcp.logicalclusters import DELETE_AFTER_ANNOTATION, DELETION_FINALIZER, delete_after
from kcp_py.client import Client, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers.content import delete_cluster_content
from kcp_py.controllers.deletion import DELETION_TIMESTAMP, DeletionController, finalizers_remain
from kcp_py.controllers.names import LOGICAL_CLUSTER_CONTROLLER
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.deadlines import Deadlines
from kcp_py.controllers.runtime.queue import Key
from kcp_py.tenancy import LOGICAL_CLUSTER

CONTENT_DELETED: Final = "WorkspaceContentDeleted"


LONGEST_WAIT_SECONDS: Final = 600.0
"""How long the end of a grace period is waited for before the object is looked at again: timers of years are not worth having."""

_DELETE_AFTER: Final = f'"{DELETE_AFTER_ANNOTATION}":'.encode()


class LogicalClusterController(DeletionController):
    """Empties terminating clusters, and deletes clusters whose grace period has ended.

    A clock that is set while the server runs neither shortens nor prolongs a grace period.
    """

    name = LOGICAL_CLUSTER_CONTROLLER
    resource = LOGICAL_CLUSTER
    per_cluster = 1
    wanted = ObjectFilter(contains=((_DELETE_AFTER,), (DELETION_TIMESTAMP,)))
    """Clusters that are being deleted or wait for the end of their grace period."""

    def __init__(self, client: Client, tap: Tap, *, now: Callable[[], str], monotonic: Callable[[], float] = time.monotonic) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            tap: deletes the content.
            now: the time as RFC 3339.
            monotonic: seconds that do not go back.
        """
        super().__init__(client, tap, now=now)
        self._deadlines = Deadlines(monotonic)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The cluster, once it is deleted."""
        key = Key(change.cluster, change.namespace, change.name)
        if change.value is not None and _DELETE_AFTER in change.value:
            yield key
        else:
            self._deadlines.forget(key)
            yield from super().keys(change)

    async def _before_deletion(self, key: Key, obj: dict[str, Any]) -> int | Later:
        after = delete_after(obj)
        if after is None:
            return 0
        metadata = obj["metadata"]
        by_the_clock = parse_time(after) - parse_time(self._now())
        remaining = self._deadlines.remaining(key, f"{metadata['uid']} {after}", by_the_clock)
        if remaining > 0:
            return Later(min(remaining, LONGEST_WAIT_SECONDS))
        # With both preconditions: an undelete that comes meanwhile wins.
        await self._client.delete(
            key.cluster, self.resource, "", key.name, uid=metadata["uid"], resource_version=metadata["resourceVersion"], grace=0
        )
        return 0

    async def _empty(self, key: Key, obj: dict[str, Any]) -> int:
        finalizers = obj["metadata"].get("finalizers") or ()
        if DELETION_FINALIZER not in finalizers:
            return 0
        status = obj.get("status") or {}
        if status.get("terminators"):
            return 0  # each terminator that is done with changes the object, which brings it here again
        if status.get("phase") != "Deleting":
            changed = {**obj, "status": {**status, "phase": "Deleting"}}
            obj = await self._client.update(key.cluster, self.resource, changed, subresource="status")
        content = await delete_cluster_content(self._tap, key.cluster, uid=obj["metadata"]["uid"])
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
