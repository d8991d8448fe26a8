"""`Fanout`: reads the changes of the store once and distributes them to all watchers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from kcp_py.request.sight import Sight
from kcp_py.storage.contract import Event, Storage, WatchBatch
from kcp_py.storage.keys import Route
from kcp_py.watchcache.backlog import backlog, object_events
from kcp_py.watchcache.deliveries import Deliveries
from kcp_py.watchcache.derivation import Derivation, Derivations
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.ring import Ring
from kcp_py.watchcache.watcher import WatchEndedError, Watcher

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.watchcache")

Listener = Callable[[ObjectEvent], None]
"""Called for every event of a resource, in revision order, before any watcher receives it. Must not block and must not raise."""

L = TypeVar("L")


_DELIVERIES_PER_TURN = 2_000
"""Deliveries after which the fan-out yields. At about 1 us each it blocks the event loop for 2 ms."""
_DELIVERIES_PER_LISTENER = 4
"""The cost of a listener to all resources, as a number of deliveries: it reads some of the objects."""


class _Hub:
    """The watchers and listeners of one resource."""

    __slots__ = ("all_clusters", "by_cluster", "listeners", "names")

    def __init__(self) -> None:
        self.by_cluster: dict[str, set[Watcher]] = {}
        self.names: Counter[tuple[str, str]] = Counter()
        """How many watchers there are of one name in one cluster."""
        self.all_clusters: set[Watcher] = set()
        self.listeners: list[Listener] = []

    def is_idle(self) -> bool:
        return not (self.by_cluster or self.all_clusters or self.listeners)


class Fanout:
    """Reads all changes of the store with one watch and distributes them.

    Flow: storage watch -> listeners (caches) -> ring -> watchers of (resource, cluster) and of (resource, all clusters).
    `revision` is the last revision that was distributed. A watcher receives later events as they happen. It receives the events between its
    own start and `revision` from the ring or, if the ring does not reach back far enough, from the history of the store.
    """

    def __init__(
        self,
        storage: Storage,
        root: str,
        *,
        max_events: int = 5_000,
        max_bytes: int = 16 * 2**20,
        watcher_buffer: int = 10_000,
    ) -> None:
        self._storage = storage
        self._root = root
        self._hubs: dict[str, _Hub] = {}
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._watcher_buffer = watcher_buffer
        self._ring = Ring(floor=0, max_events=max_events, max_bytes=max_bytes)
        self._derivations = Derivations()
        self._advanced: list[asyncio.Future[None]] = []
        self._listeners: list[Listener] = []
        self._removal_listeners: list[Callable[[Route], None]] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self._internal_listeners: dict[str, Callable[[Event], None]] = {}
        self._was_running = False
        self.deliveries = Deliveries()
        """To watchers whose tasks sleep."""
        self.revision = 0
        self.object_revision = 0
        """The revision of the last change of an object since the start. Other writes are of the server's own keys."""
        self.watchers = 0
        """The number of attached watchers."""

    async def run(self, *, started: asyncio.Event | None = None) -> None:
        """Read changes until cancelled.

        It may be called again after a failure. Events in between are not delivered: watches end, so that their clients watch again and
        receive the events from the history of the store, and caches are cleared.

        Raises:
            StorageError: the watch of the store ended; no event up to `revision` was skipped.
        """
        self.revision = await self._storage.revision()
        # No other task runs before the watch starts, so a watcher that attaches now receives every event after `revision`.
        self._ring = Ring(floor=self.revision, max_events=self._max_events, max_bytes=self._max_bytes)
        if self._was_running:
            self.object_revision = self.revision
            _log.warning("feed_restarted", revision=self.revision, watches=self.watchers)
            self.end_watches()
            for listener in list(self._gap_listeners):
                listener()
        else:
            _log.debug("feed_started", revision=self.revision)
        self._was_running = True
        self._wake()
        if started is not None:
            started.set()
        changes = self._storage.watch(f"{self._root}/", start_revision=self.revision + 1)
        try:
            async for batch in changes:
                await self._deliver(batch)
        finally:
            await changes.aclose()

    def listen(self, prefix: str, listener: Listener) -> None:
        """Call a function for every event of a resource, for the lifetime of the fan-out."""
        self._hub(prefix).listeners.append(listener)

    def listen_all(self, listener: Listener) -> Callable[[], None]:
        """Call a function for every stored event of every resource, after the listeners of the resource.

        Returns:
            Ends the calls.
        """
        return _appended(self._listeners, listener)

    def listen_removals(self, listener: Callable[[Route], None]) -> Callable[[], None]:
        """Call a function when an object of any resource is removed. It must not block and must not raise.

        Returns:
            Ends the calls.
        """
        return _appended(self._removal_listeners, listener)

    def listen_internal(self, key: str, listener: Callable[[Event], None]) -> None:
        """Call a function for every change of an internal key, for the lifetime of the fan-out. A key has one listener."""
        self._internal_listeners[key] = listener

    def listen_gaps(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function when events may have been missed, so that values from earlier reads and events must be discarded.

        Returns:
            Ends the calls.
        """
        return _appended(self._gap_listeners, listener)

    def derive(self, sources: Iterable[str], target: str, derivation: Derivation, *, on_demand: str = "") -> None:
        """Make the events that watchers of the resource `target` receive depend on events of the resources `sources` as well.

        Args:
            sources: prefixes of resources.
            target: the prefix of a resource.
            derivation: makes the events.
            on_demand: the name whose events are derived only while `is_named` says that it is watched. The ring may lack them: the
                backlog of watchers of this name comes from the history of the store. Empty for all events at all times.
        """
        self._derivations.add(sources, target, derivation, on_demand=on_demand)

    def attach(self, prefix: str, *, cluster: str = "", namespace: str = "", name: str = "", after: int) -> Watcher:
        """Subscribe to all events after a revision: `reserve` and `begin` in one call.

        Args:
            prefix: the resource's prefix.
            cluster: one cluster, or empty for all.
            namespace: one namespace, or empty for all.
            name: one name, or empty for all.
            after: the last revision that the subscriber has seen.
        """
        watcher = self.reserve(prefix, cluster=cluster, namespace=namespace, name=name)
        self.begin(watcher, after)
        return watcher

    def reserve(self, prefix: str, *, cluster: str = "", namespace: str = "", name: str = "", sight: Sight | None = None) -> Watcher:
        """Subscribe without a start. The watcher receives no events before `begin`, but `end_watches` ends it.

        This is for subscribers that read the current state first: their cluster or their CRD may be deleted in the meantime.

        Args:
            prefix: the resource's prefix.
            cluster: one cluster, or empty for all.
            namespace: one namespace, or empty for all.
            name: one name, or empty for all.
            sight: leaves events of other clusters out.
        """
        watcher = Watcher(prefix, cluster=cluster, namespace=namespace, name=name, limit=self._watcher_buffer, sight=sight)
        hub = self._hub(prefix)
        (hub.by_cluster.setdefault(cluster, set()) if cluster else hub.all_clusters).add(watcher)
        if cluster and name:
            hub.names[cluster, name] += 1
        self.watchers += 1
        return watcher

    def begin(self, watcher: Watcher, after: int) -> None:
        """Start a reserved watcher after a revision, the last one that the subscriber has seen."""
        watcher.begin(max(after, self.revision))
        if after < self.revision:
            watcher.follow(self._backlog(watcher, after, self.revision))

    async def detach(self, watcher: Watcher) -> None:
        """End a subscription. It may be called twice."""
        hub = self._hubs.get(watcher.prefix)
        if hub is not None:
            group = hub.by_cluster.get(watcher.cluster) if watcher.cluster else hub.all_clusters
            if group is not None and watcher in group:
                group.discard(watcher)
                self.watchers -= 1
                if watcher.cluster and watcher.name:
                    place = (watcher.cluster, watcher.name)
                    hub.names[place] -= 1
                    if not hub.names[place]:
                        del hub.names[place]
                if watcher.cluster and not group:
                    del hub.by_cluster[watcher.cluster]
            if hub.is_idle():
                del self._hubs[watcher.prefix]
        await watcher.aclose()

    def end_watches(self, *, prefix: str = "", cluster: str = "") -> None:
        """End watches without an error: of one resource in one cluster, of one cluster, or all. Wildcard watches end only with all."""
        for hub in [self._hubs[prefix]] if prefix in self._hubs else [] if prefix else list(self._hubs.values()):
            groups = [hub.by_cluster.get(cluster, set())] if cluster else [*hub.by_cluster.values(), hub.all_clusters]
            for group in groups:
                for watcher in group:
                    watcher.end(WatchEndedError())

    @property
    def unread(self) -> int:
        """Events that watchers have not taken."""
        groups = [group for hub in self._hubs.values() for group in (*hub.by_cluster.values(), hub.all_clusters)]
        return sum(watcher.unread for group in groups for watcher in group)

    def is_watched(self, prefix: str, cluster: str) -> bool:
        """Whether `end_watches` with these arguments would end a watch."""
        hub = self._hubs.get(prefix)
        return hub is not None and bool(hub.by_cluster.get(cluster))

    def is_named(self, prefix: str, cluster: str, name: str) -> bool:
        """Whether one name of a resource is watched in a cluster."""
        hub = self._hubs.get(prefix)
        return hub is not None and (cluster, name) in hub.names

    async def reached(self, revision: int) -> None:
        """Wait until the events of a revision were distributed."""
        while self.revision < revision:
            future = asyncio.get_running_loop().create_future()
            self._advanced.append(future)
            await future

    def _hub(self, prefix: str) -> _Hub:
        hub = self._hubs.get(prefix)
        if hub is None:
            hub = self._hubs[prefix] = _Hub()
        return hub

    async def _deliver(self, batch: WatchBatch) -> None:
        deliveries = 0
        events = batch.events
        count, end = len(events), 0
        while end < count:
            start, revision = end, events[end].mod_revision
            end += 1
            while end < count and events[end].mod_revision == revision:
                end += 1
            # Other tasks run only between revisions, because a watcher must attach before or after all events of a revision.
            self._advance(revision - 1)
            if deliveries > _DELIVERIES_PER_TURN:
                deliveries = 0
                await asyncio.sleep(0)
            stored = object_events(events[start:end], self._root, self._internal_listeners)
            if not stored:
                continue
            self.object_revision = revision
            seen: Sequence[ObjectEvent] = stored
            asked: dict[Derivation, None] = {}
            # While derivations read, a watcher may come for which further events are derived.
            while concerned := self._derivations.concerned(stored, asked):
                for derivation in concerned:
                    seen = await derivation.seen(seen, stored)
                asked.update(concerned)
            for event in stored:
                hub = self._hubs.get(event.route.prefix)
                if hub is not None:
                    for listener in hub.listeners:
                        listener(event)
            for event in seen:
                deliveries += self._dispatch(event)
            for event in stored:
                for everything in self._listeners:
                    everything(event)
                    deliveries += _DELIVERIES_PER_LISTENER
                if event.value is None:
                    for removed in self._removal_listeners:
                        removed(event.route)
        self._advance(batch.revision)

    def _dispatch(self, event: ObjectEvent) -> int:
        self._ring.append(event)
        route = event.route
        hub = self._hubs.get(route.prefix)
        if hub is None:
            return 1
        interested = hub.by_cluster.get(route.cluster)
        deliveries = 1 + len(hub.all_clusters)
        if interested is not None:
            deliveries += len(interested)
            for watcher in interested:
                watcher.offer(event)
        for watcher in hub.all_clusters:
            watcher.offer(event)
        return deliveries

    def _advance(self, revision: int) -> None:
        if revision > self.revision:
            self.revision = revision
            self._wake()

    def _wake(self) -> None:
        if self._advanced:
            waiting, self._advanced = self._advanced, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _backlog(self, watcher: Watcher, after: int, until: int) -> AsyncGenerator[Sequence[ObjectEvent], None]:
        is_derived = bool(watcher.cluster) and self._derivations.on_demand(watcher.prefix, watcher.name)
        return backlog(
            self._storage,
            self._root,
            watcher,
            # The ring of the time when the watcher is first asked for events.
            recent=lambda: None if is_derived else self._ring.after(after),
            derivations=self._derivations.of(watcher.prefix),
            after=after,
            until=until,
        )


def _appended(listeners: list[L], listener: L) -> Callable[[], None]:
    """Add a listener; the function that is returned removes it."""
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove
