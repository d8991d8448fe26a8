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
_MOST_UNMATCHED: Final = 8_192
"""Keys whose values are remembered. They take about 250 bytes each."""


def observe(
    fanout: Fanout, root: str, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
) -> Callable[[], None]:
    """`Tap.observe` on a fan-out."""
    observation = _Observation(root, observer, concerned)

    def gap() -> None:
        observation.forget()
        missed()

    endings = fanout.listen_all(observation.listen), fanout.listen_gaps(gap)

    def end() -> None:
        for ending in endings:
            ending()

    return end


class _Observation:
    """Calls one observer.

    It remembers which values do not match the filter, so that an update searches the new value alone. The store never changes the value
    of a key at a revision, so key and revision name one value.
    """

    __slots__ = ("_concerned", "_observer", "_root", "_unmatched")

    def __init__(self, root: str, observer: Callable[[ObjectChange], None], concerned: ObjectFilter) -> None:
        self._root = root
        self._observer = observer
        self._concerned = concerned
        self._unmatched: dict[str, int] = {}
        """The revision of the latest value of a key, for values that do not match."""

    def forget(self) -> None:
        """Events were missed, perhaps because another store has taken the place of this one."""
        self._unmatched.clear()

    def listen(self, event: ObjectEvent) -> None:
        """`Listener` of all resources: the rule of `ObjectFilter.shows`."""
        route, value, before, concerned = event.route, event.value, event.previous, self._concerned
        resource = resource_of(route.prefix, self._root)
        if resource in concerned.ignored:
            return
        if value is None:
            if before is None:
                return
        elif not (resource in concerned.always or concerned.matches(value)):
            if before is None:
                return
            key, _, revision, _ = before
            unmatched = self._unmatched
            known = unmatched.get(key)
            if known is None and len(unmatched) >= _MOST_UNMATCHED:
                unmatched.clear()
            unmatched[key] = event.mod_revision
            if known == revision or not concerned.matches(before.value):
                return
        previous = None if before is None else before.value
        self._observer(ObjectChange(Name(route.cluster), resource, route.namespace, route.name, value, previous))


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
