"""The changes of objects between two revisions, from the history of the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from kcp_py.aio.cooperative import Throttle
from kcp_py.client.tap import ObjectChange
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Event, Storage
from kcp_py.storage.keys import Route, resource_of, route_of


async def read_history(
    storage: Storage, root: str, after: int, *, until: int, throttle: Throttle, wanted: Callable[[Route], bool] = lambda _: True
) -> AsyncGenerator[Sequence[ObjectChange], None]:
    """Changes in the order of the store.

    Args:
        storage: the store.
        root: the prefix of its keys.
        after: the last revision that is left out.
        until: the last revision that is read, or a little more.
        throttle: passed between reads.
        wanted: which keys are shown.

    Raises:
        CompactedError: they are not all known any more.
        FutureRevisionError: the store has not reached `after`.
        StorageError: the store cannot be read.
    """
    if after >= until:
        return
    async with aclosing(storage.watch(f"{root}/", start_revision=after + 1)) as batches:
        async for batch in batches:
            yield [_change(event, route, root) for event in batch.events if (route := route_of(event.key, root)) and wanted(route)]
            if batch.revision >= until:
                return
            await throttle.take()


def _change(event: Event, route: Route, root: str) -> ObjectChange:
    previous = event.previous.value if event.previous is not None else None
    return ObjectChange(Name(route.cluster), resource_of(route.prefix, root), route.namespace, route.name, event.value, previous)
