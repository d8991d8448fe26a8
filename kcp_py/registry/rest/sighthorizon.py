"""`SightHorizon`: the events of a watch over all clusters whose caller sees some of them, while that changes.

The objects of a cluster that goes out of sight become DELETED, as they were before the change. Those of one that comes into sight become
ADDED, as they are at the revision of the change. Both are put between the other events by their revision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Final

from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.store.scan import Scan, scan
from kcp_py.registry.store.visible import Visible
from kcp_py.registry.writerequest import Resolved
from kcp_py.request.sight import SightChange
from kcp_py.storage.contract import Event, KeyValue
from kcp_py.storage.keys import route_of
from kcp_py.watchcache import ObjectEvent, Watcher

_PAGE: Final = 500
_FEW: Final = 500
"""So many clusters are read one by one."""


class SightHorizon:
    """Listens to the changes of a sight from its making on."""

    def __init__(self, registry: Registry, target: Resolved, watcher: Watcher) -> None:
        """Listen.

        Args:
            registry: the store.
            target: the watched collection.
            watcher: has the events of clusters in sight.
        """
        self._registry = registry
        self._target = target
        self._watcher = watcher
        self._changes: deque[SightChange] = deque()
        self._merged: deque[ObjectEvent | SightChange] = deque()
        """Events and changes in their order, which were taken from the watcher."""
        self._shown: AsyncGenerator[Sequence[ObjectEvent], None] | None = None
        """The events of the change that is being shown."""
        self._revision = 0
        """Of that change."""
        self.came_to = 0
        """The revision of a change of which all events were taken, for a bookmark: resourceVersions of ADDED objects may be older. The
        reader sets it to 0."""
        self._unlisten = target.sight.listen(self._note)

    def _note(self, change: SightChange) -> None:
        self._changes.append(change)
        self._watcher.wake()

    def begin(self, after: int) -> None:
        """Leave out changes that the client has seen. They are part of the state with which the watch begins."""
        while self._changes and self._changes[0].revision <= after:
            self._changes.popleft()

    async def aclose(self) -> None:
        """End; safe to call twice."""
        self._unlisten()
        if self._shown is not None:
            await self._shown.aclose()
            self._shown = None

    async def take(self) -> Sequence[ObjectEvent]:
        """See `StoredWatch.take`."""
        while True:
            if self._shown is not None:
                if (shown := await anext(self._shown, None)) is not None:
                    return shown
                self._shown = None
                self.came_to = self._revision
            if not self._merged:
                events = await self._watcher.take()
                if not self._changes:
                    return events
                self._merge(events)
                if not self._merged:
                    return ()
            plain: list[ObjectEvent] = []
            while self._merged:
                item = self._merged.popleft()
                if isinstance(item, SightChange):
                    self._revision = item.revision
                    self._shown = self._events_of(item)
                    break
                plain.append(item)
            if plain:
                return plain

    def _merge(self, events: Sequence[ObjectEvent]) -> None:
        """Put changes between events: a change comes before the events of its revision."""
        for event in events:
            while self._changes and self._changes[0].revision <= event.mod_revision:
                self._merged.append(self._changes.popleft())
            self._merged.append(event)
        if not self._watcher.has_backlog:
            # No event from before a change can follow.
            self._merged.extend(self._changes)
            self._changes.clear()

    async def _events_of(self, change: SightChange) -> AsyncGenerator[Sequence[ObjectEvent], None]:
        revision = change.revision
        async for items in self._objects(change.removed, revision - 1):
            yield [event for item in items if (event := self._event(item, revision, gone=True)) is not None]
        async for items in self._objects(change.added, revision):
            yield [event for item in items if (event := self._event(item, revision, gone=False)) is not None]

    async def _objects(self, clusters: Collection[str], revision: int) -> AsyncGenerator[Sequence[KeyValue], None]:
        """The objects of clusters at a revision, in portions.

        Raises:
            StorageError: the revision is not kept any more.
        """
        if not clusters:
            return
        registry, served = self._registry, self._target.served
        visible = Visible(frozenset(clusters).__contains__, clusters if len(clusters) <= _FEW else None)
        start = ""
        while True:
            what = Scan(None, "", start, _PAGE, revision, visible=visible)
            page = await scan(registry.access, served, what, clusters=registry.serving(served, visible))
            if page.items:
                yield page.items
                start = page.items[-1].key + "\x00"
            if not page.more:
                return

    def _event(self, item: KeyValue, revision: int, *, gone: bool) -> ObjectEvent | None:
        """An event about an object that stays as it is; None for another namespace or name."""
        route = route_of(item.key, self._target.resource.keys.root)
        if route is None or not self._watcher.selects(route):
            return None
        if gone:
            return ObjectEvent(route, Event(item.key, None, revision, item.create_revision, item))
        event = ObjectEvent(route, Event(item.key, item.value, revision, item.create_revision, None))
        event.resource_version = item.mod_revision
        return event
