"""Following the feed: as single events, and as changes that begin with what is there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.registry.scope import StaleScopeError
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import CompactedError, Storage, StorageError, readable
from kcp_py.storage.keys import ResourceKeys
from kcp_py.watchcache import Fanout, ObjectEvent, WatchEndedError, WatchOverflowError

_CHUNK: Final = 50
"""Objects that are looked at between changes. Definitions are large, so there are few."""


async def follow(
    fanout: Fanout, prefix: str, *, cluster: str, after: int, begun: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[ObjectEvent, None]:
    """The events of a resource after a revision, until the watch is ended.

    Args:
        fanout: the store's changes.
        prefix: the resource's.
        cluster: one cluster, or empty for all.
        after: the revision.
        begun: awaited once when the end of the cluster would end the watch: checks that it has not ended before.

    Raises:
        StatusError: 410 where events are no longer known, or the cluster is not the one that the caller knows.
    """
    watcher = fanout.attach(prefix, cluster=cluster, after=after)
    try:
        if begun is not None:
            await begun()
        while True:
            for event in await watcher.take():
                yield event
            await watcher.wait()
    except WatchEndedError:
        return
    except (CompactedError, WatchOverflowError, StaleScopeError) as error:
        raise errors.expired(f"too old resource version: {after} ({fanout.revision})") from error
    finally:
        await fanout.detach(watcher)


async def scan_changes(
    storage: Storage, fanout: Fanout, keys: ResourceKeys, *, resource: GroupResource, wanted: ObjectFilter
) -> AsyncGenerator[ObjectChange, None]:
    """Every change from now on, and between changes what is there already and wanted.

    Raises:
        StatusError: the store cannot be read.
    """
    while True:
        watcher = fanout.attach(keys.prefix, after=fanout.revision)
        start: str | None = ""
        try:
            while True:
                events = await watcher.take()
                for event in events:
                    route = event.route
                    previous = event.previous.value if event.previous is not None else None
                    yield ObjectChange(Name(route.cluster), resource, route.namespace, route.name, event.value, previous)
                if events:
                    continue
                if start is None:
                    await watcher.wait()
                    continue
                page = await readable(storage.range(keys.prefix, start=start, limit=_CHUNK))
                start = page.items[-1].key + "\x00" if page.more else None
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
            await fanout.detach(watcher)
