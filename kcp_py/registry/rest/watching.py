"""Watches of stored objects: the state that there is, then every selected change, in one cluster or over all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import EXACT, ListOptions, parse_resource_version
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.items import UNCONVERTED, AsStored, StoredItems
from kcp_py.registry.rest.listing import Listing, Selected, selectable
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.rest.sighthorizon import SightHorizon
from kcp_py.registry.store.access import holds
from kcp_py.registry.writerequest import Resolved
from kcp_py.storage.contract import CompactedError, KeyValue
from kcp_py.watchcache import ObjectEvent, WatchEndedError, Watcher, WatchOverflowError

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class StoredWatch:
    """One watch. From its making on, the end of the cluster, of the CRD or of the server ends it.

    Call `start`, `check`, then `initial` where `sends_initial_events` and else `find_start`, then `begin`. From then on `watcher` has the
    wakes its reader, and `take` has the events; pass them to `convert` where `may_convert`, and each to `served_in` and `kind_of`. Call
    `aclose` at the end.
    """

    __slots__ = (
        "_registry",
        "_uncreated_at",
        "after",
        "as_stored",
        "horizon",
        "items",
        "may_convert",
        "options",
        "selection",
        "stored_only",
        "target",
        "watcher",
    )

    selection: Selection
    items: StoredItems

    def __init__(self, registry: Registry, target: Resolved, options: ListOptions) -> None:
        self._registry = registry
        self.target = target
        self.options = options
        self.after = 0
        """The last revision that the client has seen; 0 where it wants the state that there is."""
        self._uncreated_at = 0
        """A revision at which the cluster did not exist. Its creation and its objects are events after it; 0 where it has an object."""
        self.as_stored: AsStored | None = None
        """Which items the caller answers without conversion."""
        self.may_convert = False
        """Whether events may need a conversion webhook."""
        self.stored_only = False
        """Whether events about objects that nothing is stored of are left out."""
        self.watcher: Final[Watcher] = registry.fanout.reserve(
            target.resource.keys.prefix,
            cluster=target.only.name if target.only is not None else "",
            namespace=target.namespace,
            name=target.name or options.field_selector.requires_exact_match("metadata.name") or "",
            sight=None if target.only is not None or target.sight.unrestricted else target.sight,
        )
        self.horizon = SightHorizon(registry, target, self.watcher) if self.watcher.sight is not None else None
        """Shows what comes into sight and goes out of it; None where nothing can."""

    async def aclose(self) -> None:
        """End the watch; safe to call twice."""
        if self.horizon is not None:
            await self.horizon.aclose()
        await self._registry.fanout.detach(self.watcher)

    async def take(self) -> Sequence[ObjectEvent]:
        """The events since the last call, without waiting for more: `Watcher.take`, and those of clusters that come into sight or leave it.

        Raises:
            StorageError: `Watcher.take`; the objects of such a cluster cannot be read.
            StatusError: the objects of such a cluster cannot be read.
        """
        return await (self.watcher if self.horizon is None else self.horizon).take()

    async def start(self) -> None:
        """Check the request and what it relies on.

        Raises:
            StatusError: 400 for unusable selectors or an unusable resourceVersion.
            StaleStateError: the cluster or the CRD changed before the watch was made.
        """
        self.target = target = await selectable(self._registry, self.target, self.options)
        self.selection = Selection(self.options, target.resource)
        self.items = StoredItems(self._registry, target)
        one, wildcard = target.resource.namespace_object, self.items.wildcard
        is_hidden = one is not None and not one.listed and (wildcard or self.selection.name != one.name)
        self.stored_only = is_hidden or (wildcard and target.resource.inherited)
        self.may_convert = target.resource.converter is not None or (self.items.wildcard and target.served.per_cluster)
        self.after = parse_resource_version(self.options.resource_version)
        if target.only is not None:
            if target.namespace:
                # A malformed namespace is refused as by a list: a list inside the watch would run after the headers are sent.
                target.resource.keys.namespace_prefix(target.only.name, target.namespace)
            await self._confirm()

    async def _confirm(self) -> None:
        """Check that cluster and CRD did not change before the watcher was reserved. Later changes end the watcher.

        Raises:
            StaleStateError: they did.
        """
        registry, cluster_state, served = self._registry, self.target.cluster_state, self.target.served
        if cluster_state.created_revision:
            await registry.clusters.confirm(cluster_state)
        else:
            # The cluster may be created between this answer and the first event. The watch goes on then.
            storage = registry.access.storage
            self._uncreated_at = await storage.revision()
            if not await holds(storage, cluster_state.life, revision=self._uncreated_at):
                raise StaleStateError(cluster_state.life[0].key)
        if served.per_cluster:
            found = await registry.tables.served_in(cluster_state.name, served)
            if found is None or found.resource is not served.resource:
                raise StaleStateError(served.guards[0].key if served.guards else served.resource.keys.prefix)

    async def check(self) -> None:
        """Refuse a start before the cluster began, and one that has not happened.

        A store that was restored from a backup has lost revisions that clients know. kube-apiserver refuses them where initial events are
        asked for, and otherwise waits in silence until the store has come so far, without the events up to there
        (`cacher.waitUntilWatchCacheFreshAndForceAllEvents`). Clients that are refused list again.

        Raises:
            StatusError: 410 or 504.
        """
        cluster_state, after = self.target.only, self.after
        if cluster_state is not None and 0 < after < cluster_state.created_revision:
            raise _expired(after, cluster_state.created_revision)
        if self.horizon is not None and 0 < after < self.target.sight.changed_at:
            raise _expired(after, self.target.sight.changed_at)
        if after > self._registry.fanout.revision and after > (current := await self._registry.access.storage.revision()):
            raise errors.too_large_resource_version(after, current)

    @property
    def sends_initial_events(self) -> bool:
        """Whether the watch begins with the state that there is."""
        if self.options.send_initial_events is not None:
            return self.options.send_initial_events
        return not self.after

    async def initial(self) -> AsyncIterator[list[Selected]]:
        """The state that there is, in portions. `after` is its revision at the end.

        Raises:
            WatchEndedError: cluster or CRD are other ones.
            StatusError: see `Listing.portions`.
        """
        options = self.options
        listed = ListOptions(
            label_selector=options.label_selector, field_selector=options.field_selector, resource_version=options.resource_version
        )
        if self._uncreated_at:
            listed = replace(listed, resource_version=str(self._uncreated_at), resource_version_match=EXACT)
        listing = Listing(self._registry, self.target, listed)
        checked = False
        async for found in listing.portions(as_stored=self.as_stored):
            if not checked:
                await self._check_lives(listing.revision)
                checked = True
            yield found
            # Free it before the next portion is read.
            del found
        if not checked:
            await self._check_lives(listing.revision)
        self.watcher.raise_if_ended()
        self.after = listing.revision

    async def _check_lives(self, revision: int) -> None:
        """End the watch where the cluster or the CRD was another one at the revision that was read.

        The fan-out may still be on its way with the end of the one that is watched.
        """
        cluster_state = self.target.only
        if cluster_state is None:
            return
        lives = (*cluster_state.life, *self.target.served.life)
        if not await holds(self._registry.access.storage, lives, revision=revision):
            raise WatchEndedError

    async def find_start(self) -> None:
        """Set `after` for a watch without initial events: the present where it is 0.

        A cluster that does not exist has no history. What the store still has of its name belonged to another one: a client that knows
        objects of that one has to list again, and others see only later events.

        Raises:
            CompactedError: an earlier cluster of the name existed at `after`.
        """
        storage, cluster_state, after = self._registry.access.storage, self.target.only, self.after
        if after and (cluster_state is None or cluster_state.created_revision):
            return
        current = self._uncreated_at or await storage.revision()
        if after and (cluster_state is None or after >= current):
            return
        if after and cluster_state is not None and not await holds(storage, cluster_state.life, revision=after):
            raise CompactedError(after, current)
        await self._check_lives(current)
        self.after = current

    def begin(self) -> None:
        """Let the watcher have everything after `after`.

        Raises:
            WatchEndedError: the watch has ended meanwhile.
        """
        # What the end has left of the history may belong to another cluster or CRD of the same name.
        self.watcher.raise_if_ended()
        self._registry.fanout.begin(self.watcher, self.after)
        if self.horizon is not None:
            self.horizon.begin(self.after)

    def expired(self, error: CompactedError | WatchOverflowError) -> StatusError:
        """410 for a watch whose client has missed changes: it lists again."""
        return _expired(self.after, error.compact_revision if isinstance(error, CompactedError) else self._registry.fanout.revision)

    # Single events

    async def served_in(self, event: ObjectEvent, cluster: Name) -> Served | None:
        """The resource in the cluster of an event; None where that does not serve the version that is watched."""
        served = self.target.served
        if not self.items.wildcard or not served.per_cluster:
            return served
        found = await self._registry.tables.served_in(cluster, served)
        if found is None and event.value is None:
            # The CRD may be gone with its last objects: their end is still shown, in the form of the others.
            return served
        return found

    async def kind_of(self, event: ObjectEvent, served: Served, cluster: Name) -> str:
        """The type of an event for the client: an object that begins to match is ADDED, one that ceases to match is DELETED.

        Empty for an event that it does not see.

        Raises:
            StatusError: the object cannot be converted.
        """
        selected_now, selected_before = event.value is not None, event.previous is not None
        if self.stored_only:
            selected_now = selected_now and bool(event.create_revision)
            selected_before = event.previous is not None and bool(event.previous.create_revision)
        if not self.selection.empty:
            matches, resource = self.selection.matches, served.resource
            selected_now = selected_now and matches(await self.decoded(event, served, cluster, now=True), resource)
            selected_before = selected_before and matches(await self.decoded(event, served, cluster, now=False), resource)
        if selected_now:
            return MODIFIED if selected_before else ADDED
        return DELETED if selected_before else ""

    def object_key(self, served: Served, *, now: bool) -> tuple[object, ...]:
        """Where the memo of an event has its decoded object: the present one, or the one before."""
        return ("object", now, served.resource, self.items.wildcard)

    async def decoded(self, event: ObjectEvent, served: Served, cluster: Name, *, now: bool) -> dict[str, Any]:
        """The object of an event, decoded once for all watches. It must not be changed.

        Raises:
            StatusError: it cannot be converted.
        """
        key = self.object_key(served, now=now)
        obj: dict[str, Any] | None = event.memo.get(key)
        if obj is None:
            obj = event.memo[key] = await self.items.decoded(item_of(event, MODIFIED if now else DELETED), served, cluster)
        return obj

    async def change(self, event: ObjectEvent) -> tuple[str, dict[str, Any]] | None:
        """What the client sees of an event: its type and a copy of the object; None for nothing.

        Raises:
            StatusError: the object cannot be converted; over all clusters it is left out instead.
        """
        cluster = Name(event.route.cluster)
        served = await self.served_in(event, cluster)
        if served is None:
            return None
        try:
            kind = await self.kind_of(event, served, cluster)
            if not kind:
                return None
            shared = event.memo.get(self.object_key(served, now=kind != DELETED))
            return kind, deepcopy(shared) if shared is not None else await self.items.decoded(item_of(event, kind), served, cluster)
        except StatusError:
            if not self.items.wildcard:
                raise
            return (DELETED, self.last_metadata(event, served, cluster)) if event.value is None else None

    def last_metadata(self, event: ObjectEvent, served: Served, cluster: Name) -> dict[str, Any]:
        """An object that is gone and cannot be converted: its metadata, as it was stored."""
        item = item_of(event, DELETED)
        resource = served.resource
        obj = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": orjson.loads(item.value)["metadata"]}
        return resource.renderer.add_server_fields(obj, item.mod_revision, cluster, wildcard=self.items.wildcard)

    async def convert(self, events: Sequence[ObjectEvent]) -> None:
        """Convert objects that need a webhook, once for all watches, those of a cluster together.

        Raises:
            StatusError: an object cannot be converted.
        """
        tasks: dict[asyncio.Task[None], None] = {}
        unconverted: dict[Name, list[tuple[ObjectEvent, bool, Served]]] = {}
        selective = not self.selection.empty
        for event in events:
            cluster = Name(event.route.cluster)
            served = await self.served_in(event, cluster)
            if served is None or served.resource.converter is None:
                continue
            for now in (True, False):
                if (event.value if now else event.previous) is None or not (now or selective or event.value is None):
                    continue
                known = event.memo.get(self.object_key(served, now=now))
                if known is None:
                    unconverted.setdefault(cluster, []).append((event, now, served))
                elif isinstance(known, asyncio.Task):
                    tasks[known] = None
        for cluster, states in unconverted.items():
            task = asyncio.ensure_future(self._convert_together(cluster, states))
            # All waiters may be cancelled. Retrieve the exception so that asyncio does not log it as never retrieved.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            for event, now, served in states:
                event.memo[self.object_key(served, now=now)] = task
            tasks[task] = None
        for task in tasks:
            await asyncio.shield(task)

    async def _convert_together(self, cluster: Name, states: Sequence[tuple[ObjectEvent, bool, Served]]) -> None:
        """Put the converted objects in the place of the task that this is; nothing where they can be answered as they are stored."""
        items = [(item_of(event, MODIFIED if now else DELETED), served, cluster) for event, now, served in states]
        objects: Sequence[dict[str, Any] | None] = [None] * len(states)
        try:
            objects = await self.items.converted(items, as_stored=self.as_stored if self.selection.empty else None)
        finally:
            for (event, now, served), obj in zip(states, objects, strict=True):
                key = self.object_key(served, now=now)
                if obj is None or obj is UNCONVERTED:
                    event.memo.pop(key, None)
                else:
                    event.memo[key] = obj


def item_of(event: ObjectEvent, kind: str) -> KeyValue:
    """The state that an event shows: the new one, or for DELETED the last one, at the revision of the change."""
    if kind != DELETED:
        assert event.value is not None
        return KeyValue("", event.value, event.resource_version, event.create_revision)
    assert event.previous is not None
    return KeyValue(event.previous.key, event.previous.value, event.resource_version, event.create_revision)


def _expired(asked: int, oldest: int) -> StatusError:
    return errors.expired(f"too old resource version: {asked} ({oldest})")
