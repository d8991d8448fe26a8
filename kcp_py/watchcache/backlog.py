"""The events between the start of a watcher and its first live event: from the ring, or from the history of the store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from kcp_py.storage.contract import Event, Storage, WatchBatch
from kcp_py.storage.keys import prefix_in_cluster, route_of
from kcp_py.watchcache.derivation import Derivation
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.watcher import Watcher

revision_of: Final = attrgetter("mod_revision")
"""The revision of an event."""
_route_of: Final = lru_cache(maxsize=4096)(route_of)
"""Many keys are written again and again. A route takes 0.6 us, and about 500 bytes here."""
_NO_LISTENERS: Final[Mapping[str, Callable[[Event], None]]] = MappingProxyType({})


def object_events(
    changes: Iterable[Event], root: str, internal: Mapping[str, Callable[[Event], None]] = _NO_LISTENERS
) -> list[ObjectEvent]:
    """The changes of objects. Changes of internal keys go to their listeners."""
    events: list[ObjectEvent] = []
    for change in changes:
        route = _route_of(change.key, root)
        if route is not None:
            events.append(ObjectEvent(route, change))
        elif (listener := internal.get(change.key)) is not None:
            listener(change)
    return events


async def backlog(
    storage: Storage,
    root: str,
    watcher: Watcher,
    *,
    recent: Callable[[], Sequence[ObjectEvent] | None],
    derivations: Sequence[Derivation],
    after: int,
    until: int,
) -> AsyncGenerator[Sequence[ObjectEvent], None]:
    """The events in (after, until] that match the watcher.

    Args:
        storage: has the history.
        root: the first segment of all keys.
        watcher: the subscription.
        recent: the events after `after` as the ring has them; None where the ring cannot serve this watcher. Asked with the first event.
        derivations: of the resource that is watched.
        after: the last revision that the subscriber has seen.
        until: the last revision that was distributed before the watcher began.

    Raises:
        StorageError: the history does not reach back so far, or cannot be read.
    """
    wants = Watcher(
        watcher.prefix,
        cluster=watcher.cluster,
        namespace=watcher.namespace,
        name=watcher.name,
        limit=0,
        after=after,
        sight=watcher.sight,
    ).wants
    from_ring = recent()
    if from_ring is not None:
        yield [event for event in from_ring if event.mod_revision <= until and wants(event)]
        return
    own = prefix_in_cluster(watcher.prefix, watcher.cluster) if watcher.cluster else watcher.prefix
    sources = [one.sources_of(watcher.cluster) for one in derivations]
    async with aclosing(_history(storage, root, own, sources, after=after, until=until)) as changes:
        async for batch in changes:
            events: list[ObjectEvent] = []
            for revision, together in groupby(batch.events, key=revision_of):
                if revision > until:
                    break
                stored = object_events(together, root)
                seen: Sequence[ObjectEvent] = stored
                for derivation in derivations:
                    if any(map(derivation.concerns, stored)):
                        seen = await derivation.seen(seen, stored)
                events.extend(event for event in seen if wants(event))
            if events:
                yield events
            if batch.revision >= until:
                return


async def _history(
    storage: Storage, root: str, own: str, sources: Sequence[Sequence[str] | None], *, after: int, until: int
) -> AsyncGenerator[WatchBatch, None]:
    """The events after a revision below the prefix `own` and the prefixes of `sources`, at least as far as `until`."""
    prefixes: dict[str, None] = {}
    for some in sources:
        if some is None:
            own, prefixes = f"{root}/", {}
            break
        prefixes.update(dict.fromkeys(some))
    before: list[Event] = []
    for prefix in prefixes:
        async with aclosing(storage.watch(prefix, start_revision=after + 1)) as changes:
            async for batch in changes:
                before += batch.events
                if batch.revision >= until:
                    break
    before.sort(key=revision_of)
    async with aclosing(storage.watch(own, start_revision=after + 1)) as changes:
        async for batch in changes:
            count = bisect_right(before, batch.revision, key=revision_of)
            yield batch._replace(events=sorted((*before[:count], *batch.events), key=revision_of)) if count else batch
            del before[:count]
