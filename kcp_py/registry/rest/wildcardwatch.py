"""`WildcardWatch`: a watch of a computed resource over all clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.rest.answered import answered
from kcp_py.registry.rest.computedwatch import ComputedWatch, shown, told
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest, RestStorage
from kcp_py.registry.store.access import translate
from kcp_py.registry.writerequest import Resolved
from kcp_py.request.sight import SightChange
from kcp_py.storage.contract import StorageError
from kcp_py.telemetry.programcode import failed_function, passes
from kcp_py.watchcache import WatchEndedError, WatchOverflowError

MOST_CLUSTERS: Final = 5_000
"""Clusters that one watch follows: each has a task and a generator of the storage."""
_WAITING: Final = 100
"""Events that wait for the client. When there are as many, the generators wait."""
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 60.0
"""Seconds until the watch of a cluster begins again: it doubles with each failure, up to this."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")

_Known = dict[tuple[str, str], str]
"""Namespace and name of each object of a cluster that the client knows -> its uid."""


class _Life(NamedTuple):
    """One cluster while it serves the resource."""

    created_revision: int
    """Of the cluster. A later cluster of the name has another one."""
    task: asyncio.Task[None]


class WildcardWatch(ComputedWatch):
    """The watches of all clusters that serve the resource, one for each cluster, merged.

    A cluster that comes, or comes into sight, while the watch runs is followed from then on. Of one that goes, goes out of sight, or ceases
    to serve the resource, the client gets DELETED for each object that it knows, with the metadata that identifies the object. So it does
    where the watch of one cluster fails or ends, as a list leaves out a cluster that fails; that watch begins again after a while, with
    ADDED.

    The clusters share one bounded queue, in which each has at most one event that waits for space. No cluster waits for another one.
    """

    def __init__(self, registry: Registry, rest: RestStorage, request: ReadRequest) -> None:
        """See `ComputedWatch`."""
        super().__init__(registry, request, registry.fanout.reserve(request.target.resource.keys.prefix))
        self._rest = rest
        self._queue: asyncio.Queue[ObjectEvent | StatusError] = asyncio.Queue(_WAITING)
        self._lives: dict[Name, _Life] = {}
        self._ending: dict[Name, asyncio.Task[None]] = {}
        """The latest life of each cluster that is gone, while the client still gets DELETED events of it."""
        self._changed: dict[Name, None] = {}
        """Clusters to look at, in order."""
        self._clusters = registry.fanout.reserve(registry.clusters.prefix)
        self._unlisten = registry.tables.listen(self._note) if request.target.served.per_cluster else lambda: None
        self._blind = request.target.sight.listen(self._look)
        self._following: asyncio.Task[None] | None = None
        self._closed = False
        self._resumes = True
        """Whether clusters that are followed from now on were there when the client listed."""

    async def start(self) -> None:
        """`ComputedWatch.start`."""
        fanout = self._registry.fanout
        fanout.begin(self._clusters, fanout.revision)
        self._following = asyncio.create_task(self._follow_clusters())

    async def aclose(self) -> None:
        """`ComputedWatch.aclose`."""
        self._closed = True
        self._unlisten()
        self._blind()
        tasks = [*self._ending.values(), *(life.task for life in self._lives.values())]
        if self._following is not None:
            tasks.append(self._following)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._registry.fanout.detach(self._clusters)
        await super().aclose()

    async def _events(self) -> AsyncGenerator[ObjectEvent, None]:
        while True:
            event = await self._queue.get()
            if isinstance(event, StatusError):
                raise event
            yield event

    def _look(self, change: SightChange) -> None:
        for cluster in (*change.removed, *change.added):
            self._note(Name(cluster))

    def _note(self, cluster: Name) -> None:
        self._changed[cluster] = None
        self._clusters.wake()

    async def _follow_clusters(self) -> None:
        """Follow the clusters that serve the resource. What goes wrong with that ends the watch."""
        try:
            async for cluster_state in self._registry.states_serving(self.target.served, self.target.sight):
                self._join(cluster_state)
            self._resumes = False
            while True:
                for event in await self._clusters.take():
                    self._changed[Name(event.route.cluster)] = None
                while self._changed:
                    cluster = next(iter(self._changed))
                    del self._changed[cluster]
                    await self._update(cluster)
                await self._clusters.wait()
        except WatchEndedError:
            return
        except WatchOverflowError:
            failure = errors.expired("the watch of the logical clusters was too slow")
        except StatusError as error:
            failure = error
        except StorageError as error:
            failure = translate(error)
        await self._queue.put(failure)

    async def _update(self, cluster: Name) -> None:
        """Begin or cease to follow a cluster, as it is now."""
        registry = self._registry
        state = await registry.clusters.state(cluster)
        if state is not None and (
            not self.target.sight.sees(cluster) or await registry.tables.served_in(cluster, self.target.served) is None
        ):
            state = None
        life = self._lives.get(cluster)
        if life is not None and (state is None or state.created_revision != life.created_revision):
            del self._lives[cluster]
            self._ending[cluster] = life.task
            life.task.add_done_callback(lambda task: self._ended(cluster, task))
            life.task.cancel()
        if state is not None:
            self._join(state)

    def _ended(self, cluster: Name, task: asyncio.Task[None]) -> None:
        if self._ending.get(cluster) is task:
            del self._ending[cluster]

    def _join(self, cluster_state: ClusterState) -> None:
        cluster = cluster_state.name
        if cluster in self._lives:
            return
        if len(self._lives) >= MOST_CLUSTERS:
            resource = self.target.resource.group_resource
            raise errors.method_not_supported(resource, "watch", f" over more than {MOST_CLUSTERS} logical clusters")
        task = asyncio.create_task(self._follow(cluster_state, self._ending.get(cluster), resumes=self._resumes))
        self._lives[cluster] = _Life(cluster_state.created_revision, task)

    async def _follow(self, cluster_state: ClusterState, previous: asyncio.Task[None] | None, *, resumes: bool) -> None:
        """Watch one cluster until cancelled: behind the resourceVersion of the request, or from the present objects on."""
        if previous is not None:
            await asyncio.wait((previous,))
        loop = asyncio.get_running_loop()
        options = self._request.options
        if not resumes:
            options = replace(options, resource_version="")
        request = self._request._replace(target=self.target._replace(only=cluster_state), options=options)
        known: _Known = {}
        delay = _FIRST_DELAY
        try:
            while True:
                began = loop.time()
                await self._forward(request, known)
                # What comes from now on begins with the objects that there are.
                request = request._replace(options=replace(request.options, resource_version=""))
                await self._delete(request.target, known)
                if loop.time() - began > _LONGEST_DELAY:
                    delay = _FIRST_DELAY
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY)
        finally:
            if not self._closed:
                await self._delete(request.target, known)

    async def _forward(self, request: ReadRequest, known: _Known) -> None:
        """Pass the changes of one cluster to the client, until they end or fail."""
        try:
            async with aclosing(shown(told(self._rest, request), request, self._selection, wildcard=True)) as events:
                async for event in events:
                    if event.type == "BOOKMARK":
                        # It is about one cluster only.
                        continue
                    metadata = event.obj["metadata"]
                    place = metadata.get("namespace", ""), metadata["name"]
                    await self._queue.put(event)
                    if event.type == "DELETED":
                        known.pop(place, None)
                    else:
                        known[place] = metadata.get("uid", "")
        except StatusError as error:
            if error.code == 410 and request.options.resource_version not in {"", "0"}:
                await self._queue.put(error)
            return
        except BaseException as error:
            if passes(error):
                raise
            # The code of a resource is that of others.
            cluster, resource = request.target.cluster_state.name, str(request.target.resource.group_resource)
            function, audit_id = failed_function(error), request.context.audit_id
            _log.exception("watch_failed", audit_id=audit_id, cluster=cluster, resource=resource, function=function)

    async def _delete(self, target: Resolved, known: _Known) -> None:
        """Pass DELETED of each known object."""
        while known:
            (namespace, name), uid = next(iter(known.items()))
            metadata: Object = {"name": name}
            if namespace:
                metadata["namespace"] = namespace
            if uid:
                metadata["uid"] = uid
            await self._queue.put(ObjectEvent("DELETED", answered({"metadata": metadata}, target, wildcard=True)))
            del known[namespace, name]
