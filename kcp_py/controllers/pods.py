"""Controller `pod-garbage-collector-controller`: pods that have ended, beyond a number, and pods of nodes that do not exist are deleted.

Source: kubernetes `pkg/controller/podgc`. Unlike upstream, a cluster without Node objects keeps its pods: they may have the names of
nodes that nothing registers. Terminating pods are not considered: no pod waits for a kubelet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.apis.upstream.disruption import with_pod_condition
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import POD_GARBAGE_COLLECTOR
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import delete_unchanged, pages
from kcp_py.logicalcluster import Name

PODS: Final = GroupVersionResource("", "v1", "pods")
NODES: Final = GroupVersionResource("", "v1", "nodes")
PERIOD_SECONDS: Final = 20.0
"""As upstream looks at all pods."""
QUARANTINE_SECONDS: Final = 40.0
"""How long a node has to be missing."""
_ENDED: Final = (b'"Succeeded"', b'"Failed"')
_BOUND: Final = b'"nodeName"'
_NONE: Final = ObjectFilter(contains=((b"\x00",),))
"""Nodes that exist when the controller starts need no look: pods tell which are missing."""
_ORPHANED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class PodGarbageCollector:
    """Deletes the oldest pods that have ended, those that were evicted first, and pods whose node is gone.

    A key without a name stands for all pods of a cluster that have ended, a key with the name of a node for its pods.
    """

    name = POD_GARBAGE_COLLECTOR
    per_cluster = 1

    def __init__(
        self,
        client: Client,
        *,
        threshold: int,
        period: float = PERIOD_SECONDS,
        quarantine: float = QUARANTINE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            threshold: pods that have ended and are kept in each cluster; 0 keeps all.
            period: seconds between a change of a pod and the look at all pods of its cluster, or at its node.
            quarantine: seconds for which a node has to be missing before its pods are deleted.
            clock: Unix seconds.
        """
        self._client = client
        self._threshold = threshold
        self._period = period
        self._quarantine = quarantine
        self._clock = clock
        self._deleted: set[tuple[Name, str]] = set()
        """Nodes that were deleted, and have not been looked at since."""
        self._missing: dict[tuple[Name, str], float] = {}
        """Nodes in quarantine, and its end in Unix seconds."""
        self._settled: set[tuple[Name, str]] = set()
        """Nodes whose pods were deleted together with those of another node, before their own turn."""

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Pods that have ended or have a node, and deletions of nodes."""
        pods = ObjectFilter(contains=tuple((text,) for text in (*_ENDED, _BOUND)))
        return (
            ControllerSource(PODS, self.keys, pods, delay=self._period, gathered=True),
            ControllerSource(NODES, self.keys_of_node, _NONE, delay=self._period, gathered=True),
        )

    def keys(self, change: ObjectChange) -> Iterator[Key]:
        """The cluster of a pod that may have ended, and the node of a pod that has just got one."""
        value = change.value
        if value is None:
            return
        if self._threshold > 0 and any(text in value for text in _ENDED):
            yield Key(change.cluster, "", "")
        # A pod keeps its node: later changes need no look.
        if _BOUND in value and (change.previous is None or _BOUND not in change.previous) and (node := _node_of(orjson.loads(value))):
            self._settled.discard((change.cluster, node))
            yield Key(change.cluster, "", node)

    def keys_of_node(self, change: ObjectChange) -> Iterable[Key]:
        """A node that was deleted."""
        place = (change.cluster, change.name)
        if change.value is not None:
            self._deleted.discard(place)
            return ()
        self._deleted.add(place)
        self._settled.discard(place)
        return (Key(change.cluster, "", change.name),)

    async def reconcile(self, key: Key) -> int | Later:
        if key.name:
            return await self._look_at_node(key)
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

    async def _look_at_node(self, key: Key) -> int | Later:
        place = (key.cluster, key.name)
        if place in self._settled:
            self._settled.discard(place)
            return 0
        exists = await find(self._client, NODES, key) is not None
        if exists or (place not in self._deleted and not await self._has_nodes(key.cluster)):
            self._deleted.discard(place)
            self._missing.pop(place, None)
            return 0
        now = self._clock()
        if (remaining := self._missing.setdefault(place, now + self._quarantine) - now) > 0:
            return Later(remaining)
        # Where many nodes go together, one look at the pods is for all of them.
        gone = {key.name, *await self._absent(key.cluster, now)}
        await self._delete_pods(key.cluster, gone)
        for name in gone:
            one = (key.cluster, name)
            self._deleted.discard(one)
            self._missing.pop(one, None)
            if name != key.name:
                self._settled.add(one)
        return 0

    async def _absent(self, cluster: Name, now: float) -> list[str]:
        """The nodes of a cluster whose quarantine is over."""
        due = [name for (owner, name), end in self._missing.items() if owner == cluster and end <= now]
        return [name for name in due if await find(self._client, NODES, Key(cluster, "", name)) is None]

    async def _delete_pods(self, cluster: Name, nodes: Collection[str]) -> None:
        """Delete the pods of nodes.

        Raises:
            StatusError: the last refusal. A pod that cannot be written does not keep the others.
        """
        refusal: StatusError | None = None
        async for items in pages(self._client, cluster, PODS):
            for pod in items:
                if _node_of(pod) in nodes and not pod["metadata"].get("deletionTimestamp"):
                    try:
                        await self._delete(cluster, pod)
                    except StatusError as error:
                        refusal = error
        if refusal is not None:
            raise refusal

    async def _has_nodes(self, cluster: Name) -> bool:
        try:
            return bool((await self._client.list(cluster, NODES, limit=1, metadata_only=True)).items)
        except StatusError as error:
            if error.code == 404:
                return False
            raise

    async def _delete(self, cluster: Name, pod: dict[str, Any]) -> None:
        """Delete a pod whose node is gone. One that has not ended has failed, which finalizers and watches see."""
        status, metadata = pod.get("status") or {}, pod["metadata"]
        try:
            if status.get("phase") not in {"Succeeded", "Failed"}:
                generation = {"observedGeneration": metadata["generation"]} if "generation" in metadata else {}
                failed = {**status, "phase": "Failed", **generation}
                failed = with_pod_condition(failed, {**_ORPHANED, **generation}, format_time(self._clock()))
                pod = await self._client.update(cluster, PODS, {**pod, "status": failed}, subresource="status")
                metadata = pod["metadata"]
            await self._client.delete(cluster, PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        except StatusError as error:
            # It is gone. After a conflict all pods of the node are looked at again.
            if error.code != 404:
                raise


def _node_of(pod: Mapping[str, Any]) -> str:
    """The node of a pod; empty for none, also where the kind comes from a CRD with another schema."""
    spec = pod.get("spec")
    name = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""
