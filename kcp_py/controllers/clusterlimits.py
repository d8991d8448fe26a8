"""Controller `logicalcluster-limits-controller`: shows limits and usage in the status of LogicalClusters, and counts again at times.

Limits are exact without it: each write charges them (`registry.quota`). It runs in each server, because a server knows what it has charged.
A status follows some seconds after the writes, so that a busy cluster does not write its LogicalCluster with each object.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.kcp.logicalclusters import NAME
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import LOGICAL_CLUSTER_LIMITS
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import LIMIT_ANNOTATIONS, Limits, Used
from kcp_py.tenancy import LOGICAL_CLUSTER

DELAY_SECONDS: Final = 5.0
"""How long after a write the status follows."""
_PERIOD_SECONDS: Final = 6 * 3600.0
_NOT_FOUND: Final = 404
_SHOWN: Final = b'"limits":'
_MARKS: Final = (*(f'"{annotation}":'.encode() for annotation in LIMIT_ANNOTATIONS), _SHOWN)


class UsageLedger(Protocol):
    """Knows limits and usage: `registry.quota.QuotaLedger`."""

    on_charged: Callable[[Name], object] | None

    def limits(self, cluster: Name, annotations: Mapping[str, Any] | None) -> Limits:
        """The limits of a cluster by the annotations of its LogicalCluster."""
        ...

    async def used(self, cluster: Name) -> Used | None:
        """What the objects of a cluster use; None where they are not counted."""
        ...

    async def recount_cluster(self, cluster: Name) -> None:
        """Count what the objects of a cluster use anew."""
        ...


class ClusterLimitsController:
    """Writes `status.limits` and `status.used`."""

    name = LOGICAL_CLUSTER_LIMITS
    per_cluster = 1

    def __init__(
        self,
        client: Client,
        ledger: UsageLedger,
        queue: WorkQueue,
        *,
        period: float = _PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """Make the controller, and have it told about charges.

        Args:
            client: of all clusters.
            ledger: knows the usage.
            queue: of the controller.
            period: seconds between two counts of a cluster.
            clock: seconds that do not go back.
            spread: when in the first period a cluster is counted, from 0 to 1.
        """
        self._client = client
        self._ledger = ledger
        self._queue = queue
        self._period = period
        self._clock = clock
        self._spread = spread
        self._due: dict[Name, float] = {}
        """When the status of a cluster is written after a charge."""
        self._counts: dict[Name, float] = {}
        """When a cluster with a usage is counted again."""
        ledger.on_charged = self.charged

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """The LogicalClusters with limits."""
        return (ControllerSource(LOGICAL_CLUSTER, self.keys, wanted=ObjectFilter(contains=tuple((mark,) for mark in _MARKS))),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """A cluster that has, shows or has had limits."""
        if change.cluster in self._counts or (change.value is not None and any(mark in change.value for mark in _MARKS)):
            yield Key(change.cluster, "", change.name)

    def charged(self, cluster: Name) -> None:
        """The usage of a cluster has changed."""
        now = self._clock()
        if self._due.get(cluster, now) <= now:
            self._due[cluster] = now + DELAY_SECONDS
            self._queue.add_after(Key(cluster, "", NAME), DELAY_SECONDS)

    async def reconcile(self, key: Key) -> int | Later:
        cluster = key.cluster
        self._due.pop(cluster, None)
        try:
            obj = await self._client.get(cluster, LOGICAL_CLUSTER, "", NAME)
        except StatusError as error:
            if error.code != _NOT_FOUND:
                raise
            self._counts.pop(cluster, None)
            return 0
        limits = self._ledger.limits(cluster, obj["metadata"].get("annotations"))
        used = await self._ledger.used(cluster)
        now = self._clock()
        # Limits that were stated before they had an effect, and a usage whose limits are gone, are put right at once.
        missing = used is None and limits.counted and bool(limits.stated)
        if missing or (used is not None and (not limits.counted or self._counts.get(cluster, now + 1) <= now)):
            await self._ledger.recount_cluster(cluster)
            used = await self._ledger.used(cluster)
            self._counts[cluster] = now + self._period
        await self._show(cluster, obj, limits, used)
        if used is None:
            self._counts.pop(cluster, None)
            return 0
        return Later(max(self._counts.setdefault(cluster, now + self._period * self._spread()) - now, 0.0))

    async def _show(self, cluster: Name, obj: dict[str, Any], limits: Limits, used: Used | None) -> None:
        """Write the status where it tells something else."""
        status = obj.get("status") or {}
        after = {name: value for name, value in status.items() if name not in {"limits", "used"}}
        if shown := limits.shown if limits.stated or used is not None else {}:
            after["limits"] = shown
        if used is not None:
            after["used"] = used.shown
        if after != status:
            await self._client.update(cluster, LOGICAL_CLUSTER, {**obj, "status": after}, subresource="status")
