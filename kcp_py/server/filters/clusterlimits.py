"""`ClusterLimitsFilter`: how many requests per second a logical cluster gets answered, and how many watches run in it.

The filter stands behind authorization: callers who may not enter a cluster cannot use up what it has. Administrators of all clusters, who
have to be able to look into a busy one, requests over all clusters, health checks and pages are not counted. Both limits hold for one
server with all of its processes; where several servers share a store, each has its own count.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol

from kcp_py.aio.lru import LRU
from kcp_py.aio.sharedcounts import Counts, key_of
from kcp_py.apimachinery.errors import too_many_requests
from kcp_py.apis.rbac.policy import KCP_ADMINS
from kcp_py.logicalcluster import Name, Wildcard
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.request.user import SYSTEM_MASTERS
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.storage.contract import StorageError

RETRY_AFTER_SECONDS: Final = 1
"""After a refused watch: the end of another one cannot be foreseen."""

_COUNTED_ROOTS: Final = frozenset(("api", "apis", "openapi"))
_BUCKETS: Final = 50_000
_MICROSECONDS: Final = 1_000_000


class ClusterStates(Protocol):
    """The states of clusters: `tenancy.LogicalClusters`."""

    @property
    def cached(self) -> Callable[[Name], ClusterState | None]:
        """The state of a cluster where it is at hand."""
        ...

    async def state(self, cluster: Name) -> ClusterState | None:
        """The state of a cluster; None where it does not exist.

        Raises:
            StorageError: the store could not be read.
        """
        ...


class Shares:
    """What each cluster uses of its limits on this server."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, counts: Counts | None = None, instants: Counts | None = None
    ) -> None:
        """Begin with nothing.

        Args:
            clock: seconds that do not go back, the same in all processes.
            counts: has the watches of the other processes of the server; None for one process.
            instants: has the time at which each cluster has its whole burst again, in microseconds, as the other processes know it; None
                for one process. The latest one holds.
        """
        self._clock = clock
        self._counts = counts
        self._instants = instants
        self._buckets: LRU[Name, tuple[float, float]] = LRU(_BUCKETS)
        """Cluster -> the requests that it may make at once, and when that was worked out. Bounded by number and not by the budget of
        clusters, at about 250 bytes each: a dropped bucket is full when it is made again, so the memory of others must not decide."""
        self._watches: dict[Name, int] = {}
        self._refused = {"requests": 0, "watches": 0}

    def refused(self) -> Mapping[tuple[str, ...], float]:
        """How many requests were refused, by the limit."""
        return {(limit,): float(count) for limit, count in self._refused.items()}

    def watches(self, cluster: Name) -> int:
        """How many counted watches of a cluster run."""
        return self._watches.get(cluster, 0)

    def take_request(self, cluster: Name, limits: Limits) -> None:
        """Count a request.

        Raises:
            StatusError: 429, the cluster has made too many; with the time after which there is room for one.
        """
        now, rate, burst = self._clock(), limits.requests, limits.largest_burst
        left, then = self._buckets.get(cluster) or (float(burst), now)
        left = min(left + (now - then) * rate, burst)
        if self._instants is not None:
            missing = (self._instants.largest(key_of(cluster)) / _MICROSECONDS - now) * rate
            # More than a burst cannot be missing: the instant is of limits that the cluster had before.
            if missing <= burst + 1:
                left = min(left, burst - missing)
        if left < 1:
            self._buckets.set(cluster, (left, now))
            self._refused["requests"] += 1
            raise too_many_requests(f"{limits.reached(cluster, 'requests')}, please try again later", math.ceil((1 - left) / rate))
        self._buckets.set(cluster, (left - 1, now))
        if self._instants is not None:
            self._instants.set(key_of(cluster), round((now + (burst - left + 1) / rate) * _MICROSECONDS), replace=True)

    def begin_watch(self, cluster: Name, limits: Limits) -> Callable[[], None]:
        """Count a watch until the result is called.

        Raises:
            StatusError: 429, as many run as may.
        """
        running = self._watches.get(cluster, 0)
        elsewhere = self._counts.total(_watches_key(cluster)) if self._counts is not None else 0
        if running + elsewhere >= limits.watches:
            self._refused["watches"] += 1
            message = f"{limits.reached(cluster, 'watches')}, please try again later"
            raise too_many_requests(message, RETRY_AFTER_SECONDS)
        self._watches[cluster] = running + 1
        self._publish(cluster)
        return partial(self._end_watch, cluster)

    def _end_watch(self, cluster: Name) -> None:
        left = self._watches[cluster] - 1
        if left:
            self._watches[cluster] = left
        else:
            del self._watches[cluster]
        self._publish(cluster)

    def _publish(self, cluster: Name) -> None:
        if self._counts is not None:
            self._counts.set(_watches_key(cluster), self._watches.get(cluster, 0))


def _watches_key(cluster: Name) -> int:
    return key_of("watches", cluster)


class ClusterLimitsFilter:
    """Refuses requests beyond the limits of their cluster with 429."""

    def __init__(self, handler: Handler, *, states: ClusterStates, shares: Shares) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            states: has the limits.
            shares: has the counts.
        """
        self._handler = handler
        self._cached = states.cached
        self._state = states.state
        self._shares = shares

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        cluster = exchange.cluster
        if isinstance(cluster, Wildcard):
            return self._handler(exchange)
        state = self._cached(cluster)
        if state is None:
            return self._looked_up(exchange, cluster)
        limits = state.limits
        if not limits.requests and not limits.watches:
            return self._handler(exchange)
        return self._limited(exchange, cluster, limits)

    async def _looked_up(self, exchange: Exchange, cluster: Name) -> None:
        """Find the limits in the store, which the handler would read otherwise."""
        limits = NO_LIMITS
        if _is_counted(exchange):
            try:
                state = await self._state(cluster)
            except StorageError:
                state = None  # the handler meets the same error, and has the words for it
            if state is not None:
                limits = state.limits
        await self._limited(exchange, cluster, limits)

    async def _limited(self, exchange: Exchange, cluster: Name, limits: Limits) -> None:
        if not _is_counted(exchange):
            await self._handler(exchange)
            return
        if limits.requests:
            self._shares.take_request(cluster, limits)
        if not limits.watches or exchange.info.verb != "watch":
            await self._handler(exchange)
            return
        end = self._shares.begin_watch(cluster, limits)
        try:
            await self._handler(exchange)
        except BaseException:
            end()
            raise
        if exchange.continuation is None:
            end()
        else:
            exchange.at_end(end)


def _is_counted(exchange: Exchange) -> bool:
    """Whether a request is for the API, and not of an administrator of all clusters."""
    groups = exchange.context.user.groups
    if SYSTEM_MASTERS in groups or KCP_ADMINS in groups:
        return False
    return exchange.info.is_resource or exchange.path.strip("/").partition("/")[0] in _COUNTED_ROOTS
