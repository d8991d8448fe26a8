"""Controller `pod-garbage-collector-controller`: of very many pods that have ended, the oldest are deleted.

Source: kubernetes `pkg/controller/podgc`. Upstream also deletes the pods of nodes that do not exist. This controller does not: a
cluster without Node objects may have pods with the names of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import POD_GARBAGE_COLLECTOR
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import Sweeps, delete_unchanged, pages

PODS: Final = GroupVersionResource("", "v1", "pods")
PERIOD_SECONDS: Final = 20.0
"""As upstream looks at all pods."""
_ENDED: Final = (b'"Succeeded"', b'"Failed"')


class PodGarbageCollector:
    """Deletes the oldest pods that have ended, those that were evicted first, until a cluster has no more of them than a threshold."""

    name = POD_GARBAGE_COLLECTOR
    per_cluster = 1

    def __init__(self, client: Client, *, threshold: int, period: float = PERIOD_SECONDS) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            threshold: pods that are kept in each cluster.
            period: seconds between the end of a pod and the look at all pods of its cluster.
        """
        self._client = client
        self._threshold = threshold
        self._period = period
        self._sweeps = Sweeps()

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Pods that have ended."""
        return (ControllerSource(PODS, self.keys, ObjectFilter(contains=tuple((text,) for text in _ENDED)), delay=self._period),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The cluster of a pod that may have ended."""
        value = change.value
        return self._sweeps.expect(change.cluster) if value is not None and any(text in value for text in _ENDED) else ()

    async def reconcile(self, key: Key) -> int:
        self._sweeps.begin(key.cluster)
        ended: list[tuple[bool, str, str, Mapping[str, Any]]] = []
        async for items in pages(self._client, key.cluster, PODS):
            for pod in items:
                status = pod.get("status") or {}
                if status.get("phase") not in {"Succeeded", "Failed"}:
                    continue
                metadata = pod["metadata"]
                identity = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
                ended.append((status.get("reason") != "Evicted", metadata["creationTimestamp"], metadata["name"], identity))
        ended.sort(key=lambda one: one[:3])
        excess = ended[: max(0, len(ended) - self._threshold)]
        await delete_unchanged(self._client, key.cluster, PODS, [identity for *_, identity in excess])
        return 0
