"""The changes of one resource in all clusters, between which the objects that are there already come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import Storage, StorageError
from kcp_py.storage.keys import ResourceKeys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, WatchEndedError, WatchOverflowError

_CHUNK: Final = 50
"""Existing objects that are read at once, between changes. CRDs are large, so there are few."""


async def scan_changes(
    storage: Storage, fanout: Fanout, keys: ResourceKeys, *, resource: GroupResource, wanted: ObjectFilter, throttle: Throttle
) -> AsyncGenerator[ObjectChange, None]:
    """Every change from now on, and between changes the existing objects that are wanted.

    Args:
        storage: the store.
        fanout: its changes.
        keys: of the resource.
        resource: the resource.
        wanted: which existing objects are shown.
        throttle: passed before each page of existing objects. It does not delay changes.

    Raises:
        StatusError: the store cannot be read.
    """
    while True:
        watcher = fanout.attach(keys.prefix, after=fanout.revision)
        pages = read_pages(storage, keys.prefix, limit=_CHUNK)
        complete = False
        turn: asyncio.Task[None] | None = None
        try:
            while True:
                events = await watcher.take()
                for event in events:
                    route = event.route
                    previous = event.previous.value if event.previous is not None else None
                    yield ObjectChange(Name(route.cluster), resource, route.namespace, route.name, event.value, previous)
                if events:
                    continue
                if complete:
                    await watcher.wait()
                    continue
                if turn is None:
                    turn = asyncio.create_task(throttle.take())
                await asyncio.wait((turn, watcher.wait()), return_when=asyncio.FIRST_COMPLETED)
                if not turn.done():
                    continue
                turn = None
                page = await anext(pages, None)
                if page is None:
                    complete = True
                    continue
                for item in page.items:
                    if wanted.matches(item.value):
                        key = keys.locate(item.key)
                        yield ObjectChange(key.cluster, resource, key.namespace, key.name, item.value, None)
        except WatchEndedError:
            return
        except WatchOverflowError:
            continue
        except StorageError as error:
            raise translate(error) from error
        finally:
            if turn is not None:
                turn.cancel()
            await fanout.detach(watcher)
