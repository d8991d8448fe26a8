"""`GarbageCollector`: deletes objects that have lost their owners, and ends deletions that wait for dependents.

Source: kubernetes `pkg/controller/garbagecollector` (`garbagecollector.go`, `graph_builder.go`). There one graph of all objects is always
in memory; here a cluster has one while objects are removed in it, and only objects with owners are in it (docs/adr/0013).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final

from kcp_py.aio.cooperative import Throttle, TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError, is_absent
from kcp_py.apimachinery.kinds import CRDS, GroupVersionResource
from kcp_py.client import ApiResource, Client, ObjectChange, Tap
from kcp_py.client.scanning import ScanProgress
from kcp_py.controllers.garbage.checks import CHECK, CONCERNED, SAVE_SECONDS, Checks
from kcp_py.controllers.garbage.graph import Graph
from kcp_py.controllers.garbage.graphs import Graphs
from kcp_py.controllers.garbage.owners import InvalidOwnerError, OwnerLookup, UnresolvedOwnerError
from kcp_py.controllers.garbage.ownership import FOREGROUND, ORPHAN, Facts, Item, Reference, facts_of, read_facts
from kcp_py.controllers.garbage.references import OwnerReferences
from kcp_py.controllers.garbage.reporting import report_invalid_owner
from kcp_py.controllers.names import GARBAGE_COLLECTOR
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.logicalcluster import Name

_GRAPH: Final = ""
"""The key of a cluster's graph itself."""
_PORTION: Final = 500
"""Items that are queued at once for one cluster."""
_MOST_QUEUED: Final = 2_000
"""Items that wait while all objects are checked."""
_SWEEP_SECONDS: Final = 60.0
_TOGETHER: Final = 8
"""Dependents whose owner references are removed at the same time."""


class GarbageCollector:
    """The garbage collector of all clusters, for a `ReconcileLoop` that is given its queue and `follow`."""

    name = GARBAGE_COLLECTOR
    per_cluster = 8

    def __init__(
        self,
        client: Client,
        tap: Tap,
        queue: WorkQueue,
        *,
        now: Callable[[], str],
        graphs: Graphs | None = None,
        throttle: Throttle | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        progress: ScanProgress | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        """Prepare; `follow` begins to observe.

        Args:
            client: of all clusters.
            tap: shows every object.
            queue: filled with the keys to reconcile.
            now: the time as RFC 3339, for events.
            graphs: for tests.
            throttle: of the reconcile loop of this collector.
            sleep: for tests.
            progress: remembers across restarts how far objects were checked; None to check all objects each time.
            save_seconds: between two checkpoints.
        """
        self._client = client
        self._tap = tap
        self._queue = queue
        self._now = now
        self._throttle = throttle if throttle is not None else Throttle()
        self._sleep = sleep
        self._graphs = graphs if graphs is not None else Graphs()
        self._owners = OwnerLookup(client, tap)
        self._references = OwnerReferences(client)
        self._unresolved: set[Name] = set()
        """Clusters in which the kind of an owner was not served. A new CRD may change that."""
        self._missed = asyncio.Event()
        self._checks: Checks | None = None
        if progress is not None:
            self._checks = Checks(progress, queue, self._examine, unresolved=self._unresolved, missed=self._missed, seconds=save_seconds)
        self._tick = min(_SWEEP_SECONDS, save_seconds)

    async def follow(self, queue: WorkQueue) -> None:
        """Check what may not have been checked, and again whenever changes were missed. Between, remove graphs that are not used."""
        assert queue is self._queue
        end = self._tap.observe(self._observe, concerned=CONCERNED, missed=self._missed.set)
        try:
            await self._keep_checking()
        finally:
            end()

    async def _keep_checking(self) -> None:
        while True:
            self._missed.clear()
            self._graphs.clear()
            self._unresolved.clear()
            await (self._check(None) if self._checks is None else self._checks.run())
            while not self._missed.is_set():
                try:
                    async with asyncio.timeout(self._tick):
                        await self._missed.wait()
                except TimeoutError:
                    self._graphs.sweep()
                    if self._checks is not None:
                        await self._checks.save_if_due()

    async def reconcile(self, key: Key) -> int:
        """`Controller.reconcile`."""
        if key.name == _GRAPH:
            await self._process_graph(key.cluster)
        elif key.name == CHECK:
            await self._check(key.cluster)
        else:
            try:
                await self._attempt(key)
            except UnresolvedOwnerError:
                self._unresolved.add(key.cluster)
        return 0

    # Changes of the store. None of these functions waits.

    def _observe(self, change: ObjectChange) -> None:
        cluster = change.cluster
        if change.resource == CRDS.group_resource and cluster in self._unresolved:
            self._unresolved.discard(cluster)
            self._queue.add(Key(cluster, "", CHECK))
        graph = self._graphs.get(cluster)
        if change.value is None and graph is not None and graph.ready and graph.empty:
            return
        before = None if change.previous is None else read_facts(change.previous)
        after = None if change.value is None else read_facts(change.value)
        item = Item(change.resource, change.namespace, change.name).text
        if after is not None and after.owners and (before is None or before.owners != after.owners):
            self._queue.add(Key(cluster, "", item))
        if graph is None:
            if after is not None and not after.awaits and not _releases(before, after):
                return  # this cluster's graph has not been used yet
            graph = self._graph_of(cluster)
        if graph.ready:
            self._note(cluster, graph, item, before, after)
        else:
            graph.told.append((item, before, after))

    def _note(self, cluster: Name, graph: Graph, item: str, before: Facts | None, after: Facts | None) -> None:
        """Apply a change to a graph, and queue the items that it affects."""
        due: Iterable[str] = ()
        if after is None:
            assert before is not None
            unblocked = graph.remove(item, before)
            due = graph.dependents(before.uid)
            if due:
                gone = Item.parse(item)
                self._owners.absent.add(
                    cluster, Reference(before.api_version, before.kind, gone.name, before.uid, blocks=False), gone.namespace
                )
        else:
            was = graph.awaiting(item)
            unblocked = graph.put(item, before, after)
            if after.awaits and (was is None or was.awaits != after.awaits):
                due = [item]
        for owner in unblocked:
            self._queue.add(Key(cluster, "", owner))
        self._schedule(cluster, graph, due)

    def _schedule(self, cluster: Name, graph: Graph, items: Iterable[str]) -> None:
        """Queue items, in portions, since there may be very many."""
        before = len(graph.due)
        graph.due.extend(items)
        if not before and graph.due:
            self._queue.add(Key(cluster, "", _GRAPH))

    def _graph_of(self, cluster: Name) -> Graph:
        """The graph of a cluster. A new graph is filled soon."""
        graph = self._graphs.get(cluster)
        if graph is None:
            graph = self._graphs.add(cluster)
            self._queue.add(Key(cluster, "", _GRAPH))
        return graph

    # The graph.

    async def _process_graph(self, cluster: Name) -> None:
        graph = self._graphs.get(cluster)
        if graph is None:
            return
        if not graph.ready:
            await self._fill(cluster, graph)
        for _ in range(min(_PORTION, len(graph.due))):
            self._queue.add(Key(cluster, "", graph.due.popleft()))
        if graph.due:
            self._queue.add(Key(cluster, "", _GRAPH))

    async def _fill(self, cluster: Name, graph: Graph) -> None:
        graph.clear()
        async with aclosing(self._stored(cluster)) as found:
            async for change in found:
                assert change.value is not None
                item = Item(change.resource, change.namespace, change.name).text
                graph.put(item, None, read_facts(change.value))
                await self._throttle.take()
        time_slice = TimeSlice()
        while graph.told:
            told, graph.told = graph.told[:_PORTION], graph.told[_PORTION:]
            for item, before, after in told:
                self._note(cluster, graph, item, before, after)
            await time_slice.yield_if_due()
        graph.ready = True
        self._schedule(cluster, graph, graph.all_awaiting())

    def _stored(self, cluster: Name | None) -> AsyncGenerator[ObjectChange, None]:
        return self._tap.stored_objects(cluster, concerned=CONCERNED)

    async def _check(self, cluster: Name | None) -> None:
        """Read the stored objects: they may have lost their owners while no controller ran."""
        async with aclosing(self._stored(cluster)) as found:
            async for change in found:
                await self._examine(change, bounded=cluster is None)

    async def _examine(self, change: ObjectChange, *, bounded: bool = True) -> None:
        """Queue a stored object that needs work, when the queue has room or is not `bounded`."""
        assert change.value is not None
        await self._throttle.take()
        item = Item(change.resource, change.namespace, change.name)
        if await self._is_settled(change.cluster, item, read_facts(change.value)):
            return
        self._queue.add(Key(change.cluster, "", item.text))
        while bounded and len(self._queue) > _MOST_QUEUED:
            await self._sleep(0.01)

    async def _is_settled(self, cluster: Name, item: Item, facts: Facts) -> bool:
        """Whether an object needs no work."""
        if facts.awaits:
            return False
        if facts.deleting or not facts.owners:
            return True
        try:
            owners = await self._owners.classify(cluster, item, facts.owners)
        except (UnresolvedOwnerError, InvalidOwnerError, StatusError):
            return False
        return len(owners.solid) == len(facts.owners)

    # One object.

    async def _attempt(self, key: Key) -> None:
        """Do what its owners and finalizers ask for with one object, as it is now (upstream: `attemptToDeleteItem`)."""
        cluster, item = key.cluster, Item.parse(key.name)
        served = await self._client.find_resource(cluster, item.resource)
        if served is None:
            raise UnresolvedOwnerError
        obj = await self._find(cluster, served.resource, item)
        if obj is None:
            return
        facts = facts_of(obj)
        if facts.awaits:
            await self._end(cluster, served.resource, item, facts)
        elif not facts.deleting and facts.owners:
            try:
                await self._collect(cluster, served, item, obj, facts)
            except InvalidOwnerError as error:
                await self._report(cluster, served, item, facts.uid, error.owner)

    async def _report(self, cluster: Name, served: ApiResource, item: Item, uid: str, owner: Reference) -> None:
        await report_invalid_owner(self._client, cluster, item, served=served, uid=uid, owner=owner, now=self._now())

    async def _collect(self, cluster: Name, served: ApiResource, item: Item, obj: dict[str, Any], facts: Facts) -> None:
        resource = served.resource
        solid, dangling, waiting, misplaced = await self._owners.classify(cluster, item, facts.owners)
        for reference in misplaced:
            await self._report(cluster, served, item, facts.uid, reference)
        if solid:
            if dangling or waiting:
                # An owner that waits would wait for ever for a dependent that stays.
                await self._references.drop(cluster, resource, item, facts.uid, {reference.uid for reference in (*dangling, *waiting)})
            return
        metadata = obj["metadata"]
        version = metadata["resourceVersion"]
        finalizers = metadata.get("finalizers") or ()
        propagation = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        if waiting:
            graph = self._graph_of(cluster)
            if not graph.ready:
                self._schedule(cluster, graph, [item.text])
                return
            dependents = graph.dependents(facts.uid)
            if dependents:
                propagation = "Foreground"
                if any((found := graph.awaiting(one)) is not None and found.awaits == FOREGROUND for one in dependents):
                    await self._references.unblock(cluster, resource, item, facts.uid)
                    version = ""
        await self._delete(cluster, resource, item, facts, version=version, propagation=propagation)

    async def _delete(
        self, cluster: Name, resource: GroupVersionResource, item: Item, facts: Facts, *, version: str, propagation: str
    ) -> None:
        """Delete an object unless its owners have changed; a missing one is not an error."""
        try:
            await self._client.delete(
                cluster, resource, item.namespace, item.name, uid=facts.uid, resource_version=version, propagation=propagation
            )
        except StatusError as error:
            if error.code == 404:
                return
            if error.reason != "Conflict" or not version:
                raise
            # A client that changes the object all the time does not keep it for ever (upstream: `deleteObject`).
            obj = await self._find(cluster, resource, item)
            if obj is None:
                return
            now = facts_of(obj)
            if (now.uid, now.owners) != (facts.uid, facts.owners):
                raise
            await self._delete(cluster, resource, item, facts, version="", propagation=propagation)

    async def _find(self, cluster: Name, resource: GroupVersionResource, item: Item) -> dict[str, Any] | None:
        try:
            return await self._client.get(cluster, resource, item.namespace, item.name, metadata_only=True)
        except StatusError as error:
            if is_absent(error):
                return None
            if error.code == 404:
                raise UnresolvedOwnerError from error
            raise

    async def _end(self, cluster: Name, resource: GroupVersionResource, item: Item, facts: Facts) -> None:
        """Go on with a deletion that waits for dependents."""
        graph = self._graph_of(cluster)
        if not graph.ready:
            self._schedule(cluster, graph, [item.text])
            return
        known = graph.awaiting(item.text)
        if known is None or known.awaits != facts.awaits:
            return  # the change is on its way to the observer, and with it whatever came before it
        if facts.awaits == ORPHAN:
            await self._orphan(cluster, list(graph.dependents(facts.uid)), facts.uid)
        elif graph.blocking(facts.uid):
            if graph.is_in_cycle(item.text):
                await self._references.unblock(cluster, resource, item, facts.uid)
            self._schedule(cluster, graph, [one for one in graph.dependents(facts.uid) if not graph.awaiting(one)])
            return
        await self._tap.remove_finalizer(cluster, resource, item.namespace, item.name, finalizer=facts.awaits, uid=facts.uid)

    async def _orphan(self, cluster: Name, dependents: list[str], uid: str) -> None:
        """Take an owner from its dependents.

        Raises:
            StatusError: one of them could not be changed.
        """
        time_slice = TimeSlice()
        for at in range(0, len(dependents), _TOGETHER):
            await asyncio.gather(*(self._let_go(cluster, Item.parse(one), uid) for one in dependents[at : at + _TOGETHER]))
            await time_slice.yield_if_due()

    async def _let_go(self, cluster: Name, item: Item, uid: str) -> None:
        served = await self._client.find_resource(cluster, item.resource)
        if served is None:
            raise errors.service_unavailable(f"{item.resource} is not served: {item.name} keeps its owner", retry_after_seconds=1)
        await self._references.drop(cluster, served.resource, item, "", {uid})


def _releases(before: Facts | None, after: Facts) -> bool:
    """Whether a change may end the wait of an owner for this object."""
    return before is not None and before.owners != after.owners and any(owner.blocks for owner in before.owners)
