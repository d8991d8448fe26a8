"""Controller `event-ttl-controller`: events are deleted some time after their last write.

In Kubernetes kube-apiserver gives each event a lease of etcd (`--event-ttl`). Here nothing is kept in memory for an event: its metadata has
the time of its last write. A cluster has one timer while it has events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.client import Client, ObjectChange
from kcp_py.controllers.names import EVENT_TTL
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import delete_unchanged, pages
from kcp_py.logicalcluster import Name

EVENTS: Final = GroupVersionResource("", "v1", "events")
_LOOKS: Final = 20
"""How often a cluster is looked at during the life of an event, at the most: so much later than its time may an event go."""
_MOST: Final = 20_000
"""Events that are deleted after one look, to bound their list."""


class EventTTLController:
    """Deletes the events of a cluster that were not written for a time."""

    name = EVENT_TTL
    per_cluster = 1

    def __init__(self, client: Client, *, ttl: float, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            ttl: seconds.
            clock: Unix seconds.
        """
        self._client = client
        self._ttl = ttl
        self._clock = clock
        self._throttle = Throttle()

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Events."""
        return (ControllerSource(EVENTS, self.keys, delay=self._ttl / _LOOKS, gathered=True),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The cluster of a new or changed event."""
        return (Key(change.cluster, "", ""),) if change.value is not None else ()

    async def reconcile(self, key: Key) -> int | Later:
        expired, earliest = await self._look(key.cluster)
        # Not while they are read: a list of an old state is slow where much has changed since.
        await delete_unchanged(self._client, key.cluster, EVENTS, expired, throttle=self._throttle)
        if earliest is None:
            return 0
        return Later(max(earliest - self._clock(), self._ttl / _LOOKS))

    async def _look(self, cluster: Name) -> tuple[list[dict[str, Any]], float | None]:
        """The metadata of events to delete, and when the next one has its time; None where there are no others."""
        now = self._clock()
        expired: list[dict[str, Any]] = []
        earliest: float | None = None
        async with aclosing(pages(self._client, cluster, EVENTS, metadata_only=True)) as found:
            async for page in found:
                await self._throttle.take()
                for event in page:
                    end = self._end(event)
                    if end <= now and len(expired) < _MOST:
                        expired.append(event["metadata"])
                    elif earliest is None or end < earliest:
                        earliest = end
        return expired, earliest

    def _end(self, event: Mapping[str, Any]) -> float:
        return last_write(event["metadata"]) + self._ttl


def last_write(metadata: Mapping[str, Any]) -> float:
    """When an object was created or changed last, in Unix seconds, by the times that the server writes."""
    times = [metadata["creationTimestamp"], *(entry.get("time") for entry in metadata.get("managedFields") or ())]
    return max(parse_time(one) for one in times if one)
