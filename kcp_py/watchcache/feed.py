"""`Feed`: the store's changes, read once and handed to everybody who watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, Protocol

import structlog

from kcp_py.storage.contract import Event, Storage, WatchBatch
from kcp_py.storage.keys import Route, prefix_in_cluster, route_of
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.ring import Ring
from kcp_py.watchcache.watcher import WatchEndedError, Watcher

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.watchcache")

Listener = Callable[[ObjectEvent], None]
"""Called for every event of a resource, in revision order, before any watcher sees it. Must not block and must not raise."""

_revision: Final = attrgetter("mod_revision")


class Derivation(Protocol):
    """What watches of one resource get that does not follow from its stored objects alone, such as the namespaces of a new cluster."""

    def concerns(self, event: ObjectEvent) -> bool:
        """Whether a stored event, of a source or of the resource itself, may be seen otherwise than it is. Called for each: cheap."""
        ...

    async def seen(self, events: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        """What watches get of the events of one revision, of which at least one concerns this.

        Raises:
            StorageError: what else decides it cannot be read at that revision.
        """
        ...


_DELIVERIES_PER_TURN = 2_000
"""After so many deliveries the feed lets other tasks run: at about 1 us each the loop is held for 2 ms."""
_DELIVERIES_PER_LISTENER = 4
"""What a listener to everything may cost: it reads some of the objects."""


class _Hub:
    """Who is interested in one resource."""

    __slots__ = ("all_clusters", "by_cluster", "listeners")

    def __init__(self) -> None:
        self.by_cluster: dict[str, set[Watcher]] = {}
        self.all_clusters: set[Watcher] = set()
        self.listeners: list[Listener] = []

    def is_idle(self) -> bool:
        return not (self.by_cluster or self.all_clusters or self.listeners)


class Feed:
    """Reads the whole store's changes in one watch, and fans them out.

    Flow: storage watch -> listeners (caches) -> ring -> watchers of (resource, cluster) and of (resource, all clusters).
    `revision` is how far this has come; whoever attaches gets everything after it live, and what lies between its own start and
    `revision` from the ring or, beyond that, from the store's history.
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
        self._derivations: dict[str, list[Derivation]] = {}
        """By the prefix of the events that they may concern."""
        self._derived: dict[str, list[Derivation]] = {}
        """By the prefix of the resource whose watches get the outcome."""
        self._advanced: list[asyncio.Future[None]] = []
        self._listeners: list[Listener] = []
        self._removal_listeners: list[Callable[[Route], None]] = []
        self._gap_listeners: list[Callable[[], None]] = []
        self._was_running = False
        self.revision = 0
        self.watchers = 0
        """How many watchers are attached."""

    async def run(self, *, started: asyncio.Event | None = None) -> None:
        """Read changes until cancelled.

        May be called again after it has failed. What happened in between is not made up for: watches end, so that their clients come again
        and are served from the store's history, and caches are told to begin anew.

        Raises:
            StorageError: the store cannot be watched any more; nothing was skipped up to `revision`.
        """
        self.revision = await self._storage.revision()
        # From here on to the start of the watch nothing waits: whoever attaches or fills a cache now gets everything after `revision`.
        self._ring = Ring(floor=self.revision, max_events=self._max_events, max_bytes=self._max_bytes)
        if self._was_running:
            _log.warning("feed_restarted", revision=self.revision, watches=self.watchers)
            self.end_watches()
            for listener in self._gap_listeners:
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
        """Have a function called for every event of a resource, for as long as the feed lives."""
        self._hub(prefix).listeners.append(listener)

    def listen_all(self, listener: Listener) -> None:
        """Have a function called for every event of every resource, after the listeners of the resource. Derived events are left out."""
        self._listeners.append(listener)

    def listen_removals(self, listener: Callable[[Route], None]) -> None:
        """Have a function called whenever an object of any resource is removed, under the rules of `listen`."""
        self._removal_listeners.append(listener)

    def listen_gaps(self, listener: Callable[[], None]) -> None:
        """Have a function called whenever events may have been missed: what was learned from events or read before is to be forgotten."""
        self._gap_listeners.append(listener)

    def derive(self, sources: Iterable[str], target: str, derivation: Derivation) -> None:
        """Let what watches of the resource `target` get depend on events of the resources `sources` as well."""
        for prefix in dict.fromkeys((*sources, target)):
            self._derivations.setdefault(prefix, []).append(derivation)
        self._derived.setdefault(target, []).append(derivation)

    def attach(self, prefix: str, *, cluster: str = "", namespace: str = "", name: str = "", after: int) -> Watcher:
        """Subscribe to everything after a revision: `reserve` and `begin` at once.

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

    def reserve(self, prefix: str, *, cluster: str = "", namespace: str = "", name: str = "") -> Watcher:
        """Subscribe without a start. The watcher gets no events before `begin`, but ends when watches like it are ended.

        For subscribers that read the present state first: it may belong to a cluster or a definition that is deleted meanwhile.
        """
        watcher = Watcher(prefix, cluster=cluster, namespace=namespace, name=name, limit=self._watcher_buffer)
        hub = self._hub(prefix)
        (hub.by_cluster.setdefault(cluster, set()) if cluster else hub.all_clusters).add(watcher)
        self.watchers += 1
        return watcher

    def begin(self, watcher: Watcher, after: int) -> None:
        """Let a reserved watcher have everything after a revision, the last one that the subscriber has seen."""
        watcher.begin(max(after, self.revision))
        if after < self.revision:
            watcher.follow(self._backlog(watcher, after, self.revision))

    async def detach(self, watcher: Watcher) -> None:
        """End a subscription; safe to call twice."""
        hub = self._hubs.get(watcher.prefix)
        if hub is not None:
            group = hub.by_cluster.get(watcher.cluster) if watcher.cluster else hub.all_clusters
            if group is not None and watcher in group:
                group.discard(watcher)
                self.watchers -= 1
                if watcher.cluster and not group:
                    del hub.by_cluster[watcher.cluster]
            if hub.is_idle():
                del self._hubs[watcher.prefix]
        await watcher.aclose()

    def end_watches(self, *, prefix: str = "", cluster: str = "") -> None:
        """End watches cleanly: those of one resource in one cluster, of one cluster, or all. Watches of all clusters end only with all."""
        for hub in [self._hubs[prefix]] if prefix in self._hubs else [] if prefix else list(self._hubs.values()):
            groups = [hub.by_cluster.get(cluster, set())] if cluster else [*hub.by_cluster.values(), hub.all_clusters]
            for group in groups:
                for watcher in group:
                    watcher.end(WatchEndedError())

    def is_watched(self, prefix: str, cluster: str) -> bool:
        """Whether `end_watches` with these would end any."""
        hub = self._hubs.get(prefix)
        return hub is not None and bool(hub.by_cluster.get(cluster))

    async def reached(self, revision: int) -> None:
        """Wait until the feed has come to a revision."""
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
        for revision, changes in groupby(batch.events, key=_revision):
            # Only between revisions may other tasks run: whoever attaches has to find revisions whole.
            self._advance(revision - 1)
            if deliveries > _DELIVERIES_PER_TURN:
                deliveries = 0
                await asyncio.sleep(0)
            stored = self._stored(changes)
            concerned = [one for event in stored for one in self._derivations.get(event.route.prefix, ()) if one.concerns(event)]
            seen: Sequence[ObjectEvent] = stored
            for derivation in dict.fromkeys(concerned):
                seen = await derivation.seen(seen)
            for event in stored:
                for listener in self._listeners_to(event.route.prefix):
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

    def _stored(self, changes: Iterable[Event]) -> list[ObjectEvent]:
        """The changes that are those of objects."""
        return [ObjectEvent(route, change) for change in changes if (route := route_of(change.key, self._root)) is not None]

    def _listeners_to(self, prefix: str) -> Sequence[Listener]:
        hub = self._hubs.get(prefix)
        return () if hub is None else hub.listeners

    def _dispatch(self, event: ObjectEvent) -> int:
        self._ring.append(event)
        hub = self._hubs.get(event.route.prefix)
        if hub is None:
            return 1
        interested = hub.by_cluster.get(event.route.cluster)
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

    async def _backlog(self, watcher: Watcher, after: int, until: int) -> AsyncGenerator[Sequence[ObjectEvent], None]:
        """The events in (after, until] that the watcher wants."""
        wants = Watcher(watcher.prefix, cluster=watcher.cluster, namespace=watcher.namespace, name=watcher.name, after=after, limit=0).wants
        recent = self._ring.after(after)
        if recent is not None:
            yield [event for event in recent if event.mod_revision <= until and wants(event)]
            return
        derivations = self._derived.get(watcher.prefix, ())
        own = prefix_in_cluster(watcher.prefix, watcher.cluster) if watcher.cluster else watcher.prefix
        changes = self._storage.watch(f"{self._root}/" if derivations else own, start_revision=after + 1)
        try:
            async for batch in changes:
                events: list[ObjectEvent] = []
                for revision, together in groupby(batch.events, key=_revision):
                    if revision > until:
                        break
                    seen: Sequence[ObjectEvent] = self._stored(together)
                    for derivation in derivations:
                        if any(map(derivation.concerns, seen)):
                            seen = await derivation.seen(seen)
                    events.extend(event for event in seen if wants(event))
                if events:
                    yield events
                if batch.revision >= until:
                    return
        finally:
            await changes.aclose()
