"""Observation of changes and of stored objects of all resources."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from kcp_py.aio.cooperative import Throttle, TimeSlice
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import Storage, StorageError
from kcp_py.storage.keys import resource_of, route_of
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, ObjectEvent

_PAGE: Final = 200
"""Objects that are read at once."""


def observe(
    fanout: Fanout, root: str, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
) -> Callable[[], None]:
    """`Tap.observe` on a fan-out."""

    def listener(event: ObjectEvent) -> None:
        route = event.route
        resource = resource_of(route.prefix, root)
        value, previous = event.value, event.previous.value if event.previous is not None else None
        if concerned.shows(resource, value, previous):
            observer(ObjectChange(Name(route.cluster), resource, route.namespace, route.name, value, previous))

    endings = fanout.listen_all(listener), fanout.listen_gaps(missed)

    def end() -> None:
        for ending in endings:
            ending()

    return end


async def stored_objects(
    storage: Storage,
    fanout: Fanout,
    root: str,
    *,
    prefixes: Sequence[str],
    concerned: ObjectFilter,
    limit: int,
    throttle: Throttle | None = None,
) -> AsyncGenerator[ObjectChange, None]:
    """`Tap.stored_objects`: what lies under prefixes of keys. A throttle is passed before each page.

    Raises:
        StatusError: the store cannot be read.
    """
    time_slice = TimeSlice()
    revision = 0
    try:
        for prefix in prefixes:
            seen = 0
            if throttle is not None:
                await throttle.take()
            async for page in read_pages(storage, prefix, limit=_PAGE):
                revision = page.revision
                seen += len(page.items)
                for item in page.items:
                    route = route_of(item.key, root)
                    if route is None:
                        continue
                    resource = resource_of(route.prefix, root)
                    if resource not in concerned.ignored and concerned.matches(item.value):
                        yield ObjectChange(Name(route.cluster), resource, route.namespace, route.name, item.value, None)
                    await time_slice.yield_if_due()
                if limit and seen >= limit:
                    break
                if throttle is not None:
                    await throttle.take()
    except StorageError as error:
        raise translate(error) from error
    await fanout.reached(revision)
