"""Controller `namespace-controller`: a namespace that is deleted takes the objects in it along.

Source: kubernetes `pkg/controller/namespace/deletion` (`namespaced_resources_deleter.go`, `status_condition_utils.go`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import NAMESPACES
from kcp_py.apimachinery.meta.timestamps import format_time, parse_time
from kcp_py.apis.core.namespaces import FINALIZER
from kcp_py.client import Client, ObjectChange, Tap
from kcp_py.controllers.content import Content, delete_namespace_content
from kcp_py.controllers.deletion import DeletionController, finalizers_remain
from kcp_py.controllers.names import NAMESPACE
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.deadlines import Deadlines
from kcp_py.controllers.runtime.queue import Key

_GOOD: Final[Mapping[str, tuple[str, str]]] = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentRemoved", "All content successfully removed"),
}
"""Condition -> its reason and message while it is False. Which resources a cluster holds is always known here, so the first two stay so."""


class NamespaceController(DeletionController):
    """Empties terminating namespaces, a while after their deletion.

    A client that deletes a namespace together with objects in it, such as `kubectl delete -f`, finds the objects still there. The time
    counts from `deletionTimestamp`, so that it does not begin again with the process. A clock that is set neither shortens nor prolongs it.
    """

    name = NAMESPACE
    resource = NAMESPACES
    per_cluster = 4

    def __init__(
        self,
        client: Client,
        tap: Tap,
        *,
        clock: Callable[[], float],
        grace: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            tap: deletes the content.
            clock: Unix seconds.
            grace: seconds at the least between the deletion of a namespace and that of its content; 0 for none
                (upstream's `namespaceDeletionGracePeriod`).
            monotonic: seconds that do not go back.
        """
        super().__init__(client, tap, now=lambda: format_time(clock()))
        self._clock = clock
        self._grace = grace
        self._deadlines = Deadlines(monotonic)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The namespace, once it is being deleted."""
        if change.value is None:
            self._deadlines.forget(Key(change.cluster, change.namespace, change.name))
        return super().keys(change)

    async def _empty(self, key: Key, obj: dict[str, Any]) -> int | Later:
        if FINALIZER not in ((obj.get("spec") or {}).get("finalizers") or ()):
            return 0
        metadata = obj["metadata"]
        wait = remaining_grace(metadata["deletionTimestamp"], self._clock(), self._grace)
        if self._grace:
            wait = self._deadlines.remaining(key, metadata["uid"], wait)
        if wait > 0:
            return Later(wait)
        content = await delete_namespace_content(self._tap, key.cluster, key.name, uid=metadata["uid"])
        await self._report(key, obj, *conditions_of(content))
        if content.failures:
            raise content.failures[0]
        if content.resources:
            return content.objects
        await self._let_go(key, obj, FINALIZER)
        return 0


def remaining_grace(deleted: str, now: float, grace: float) -> float:
    """Seconds until the content of a namespace may be deleted; 0 or less where it may be now.

    It is never longer than a deletion at this moment would have it: where `deleted` is in the future, the clock was set back.

    Args:
        deleted: the namespace's `deletionTimestamp`, whose fraction of a second is cut off.
        now: Unix seconds.
        grace: seconds.
    """
    if not grace:
        return 0
    try:
        until = parse_time(deleted) + 1 + grace
    except ValueError:
        return 0
    return min(until - now, grace + 1)


def conditions_of(content: Content) -> Sequence[Mapping[str, Any]]:
    """The five conditions of a terminating namespace, without times."""
    bad: dict[str, tuple[str, str]] = {}
    if content.failures:
        failures = ", ".join(sorted(failure.message for failure in content.failures))
        message = f"Failed to delete all resource types, {len(content.failures)} remaining: {failures}"
        bad["NamespaceDeletionContentFailure"] = "ContentDeletionFailed", message
    if content.resources:
        # The group follows the dot, whether or not there is one.
        left = sorted(f"{name.resource}.{name.group} has {count} resource instances" for name, count in content.resources.items())
        bad["NamespaceContentRemaining"] = "SomeResourcesRemain", f"Some resources are remaining: {', '.join(left)}"
    if content.finalizers:
        bad["NamespaceFinalizersRemaining"] = "SomeFinalizersRemain", finalizers_remain(content.finalizers, "namespace")
    return [
        {"type": name, "status": "True" if name in bad else "False", "reason": reason, "message": message}
        for name, good in _GOOD.items()
        for reason, message in [bad.get(name, good)]
    ]
