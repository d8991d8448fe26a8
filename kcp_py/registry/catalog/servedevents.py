"""`ServedEvents`: the events of stored objects whose resource a cluster begins or ceases to serve.

The objects stay in the store while a source does not serve their resource. Lists over all clusters leave them out meanwhile, and watches
over all clusters have to agree with them: the objects are DELETED with the change that ends the resource, and ADDED with the change that
brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.registry.catalog.source import ResourceSource, ServedChange
from kcp_py.storage.contract import Event, KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys, Route
from kcp_py.watchcache import ObjectEvent

_PAGE: Final = 500
"""Objects that are read at once."""


class ServedEvents:
    """Works out these events of one resource of one source. Implements `watchcache.derivation.Derivation`."""

    def __init__(self, storage: Storage, source: ResourceSource, keys: ResourceKeys) -> None:
        """Prepare.

        Args:
            storage: where the objects are read.
            source: knows which changes begin and end the resource.
            keys: of the resource.
        """
        self._storage = storage
        self._source = source
        self._keys = keys

    def concerns(self, event: ObjectEvent) -> bool:
        """`Derivation.concerns`."""
        return any(change.prefix == self._keys.prefix for change in self._source.changes(event))

    def sources_of(self, cluster: str) -> None:
        """`Derivation.sources_of`: objects of any cluster may begin and end the resource."""
        del cluster

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        """`Derivation.seen`."""
        del stored
        found: list[ObjectEvent] = []
        written = {event.route for event in events}
        for event in events:
            for change in self._source.changes(event):
                if change.prefix == self._keys.prefix:
                    found += [one for one in await self._objects(change, event.mod_revision) if one.route not in written]
        for one in found[:-1]:
            # A client that resumes after one of them gets the others again.
            one.resource_version = min(one.resource_version, one.mod_revision - 1)
        return [*events, *found]

    async def _objects(self, change: ServedChange, revision: int) -> list[ObjectEvent]:
        """An event for each object that the cluster stores."""
        found: list[ObjectEvent] = []
        prefix, start = self._keys.cluster_prefix(change.cluster), ""
        time_slice = TimeSlice()
        while True:
            page = await self._storage.range(prefix, start=start, limit=_PAGE, revision=revision)
            found += [self._event(item, revision, served=change.served) for item in page.items]
            if not page.more:
                return found
            start = page.items[-1].key + "\x00"
            await time_slice.yield_if_due()

    def _event(self, item: KeyValue, revision: int, *, served: bool) -> ObjectEvent:
        route = Route(self._keys.prefix, *self._keys.parse(item.key))
        if not served:
            return ObjectEvent(route, Event(item.key, None, revision, item.create_revision, item))
        event = ObjectEvent(route, Event(item.key, item.value, revision, item.create_revision, None))
        # The object has not changed: updates compare the revision of its last write.
        event.resource_version = item.mod_revision
        return event
