"""The results of verbs as a client of the same process gets them: decoded objects, lists and changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

import orjson

from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.client.contract import ObjectList, WatchEvent
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.rest.computed import ObjectList as ComputedList
from kcp_py.registry.rest.computed import PatchedObject
from kcp_py.registry.rest.computedwatch import ComputedWatch
from kcp_py.registry.rest.listing import Listing
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import Object, StoredObject, WrittenObject
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import CompactedError, StorageError
from kcp_py.watchcache import WatchCutError, WatchEndedError, WatchOverflowError

_BOOKMARK_SECONDS: Final = 60.0


async def decoded(found: Object | StoredObject | WrittenObject | PatchedObject, *, metadata_only: bool = False) -> Object:
    """The object of a result, or a PartialObjectMetadata of it."""
    if metadata_only:
        if isinstance(found, StoredObject):
            return partial_object_metadata(found.metadata())
        return partial_object_metadata(await decoded(found))
    if isinstance(found, PatchedObject):
        return found.obj
    return found if isinstance(found, dict) else await found.decoded()


async def read_list(listing: Listing | ComputedList, *, metadata_only: bool) -> ObjectList:
    """The objects of a list or of its next page."""
    if isinstance(listing, ComputedList):
        items = [partial_object_metadata(obj) for obj in listing.items] if metadata_only else listing.items
        return ObjectList(items, str(listing.revision), listing.continue_token, listing.remaining or None)
    found: list[Object] = []
    async for portion in listing.portions(answered=not metadata_only):
        for one in portion:
            obj = one.obj
            if obj is None and metadata_only:
                obj = {"metadata": orjson.loads(one.item.value)["metadata"]}
                obj = one.served.resource.renderer.add_server_fields(
                    obj, one.item.mod_revision, one.cluster, wildcard=listing.items.wildcard
                )
            elif obj is None:
                obj = await listing.items.decoded(one.item, one.served, one.cluster)
            found.append(partial_object_metadata(obj) if metadata_only else obj)
        del portion
    remaining = listing.remaining if listing.more and listing.remaining > 0 and not listing.selective else None
    return ObjectList(found, str(listing.revision), listing.continue_token(), remaining)


async def read_watch(
    start: Callable[[], Awaitable[StoredWatch | ComputedWatch]],
    registry: Registry,
    seconds: float | None,
    *,
    metadata_only: bool,
    ended: Sequence[Callable[[], None]] = (),
) -> AsyncGenerator[WatchEvent, None]:
    """The events of a watch, for a time. The watch is started when the first event is asked for, and closed with the generator.

    Args:
        start: starts it.
        registry: the store.
        seconds: the time; None for no end.
        metadata_only: whether objects are a PartialObjectMetadata.
        ended: called when the watch has ended; `start` may fill it.

    Raises:
        StatusError: 410 where changes are no longer known, and the errors of `start`.
    """
    watch = await start()
    shown = watch.changes(seconds) if isinstance(watch, ComputedWatch) else _changes_of(watch, registry, seconds)
    try:
        async with aclosing(shown) as changes:
            async for change in changes:
                kind, obj = change[:2]
                yield WatchEvent(kind, partial_object_metadata(obj) if metadata_only and kind != "BOOKMARK" else obj)
    except WatchCutError:
        return
    except StorageError as error:
        raise translate(error) from error
    finally:
        for call in ended:
            call()
        await watch.aclose()


async def _changes_of(watch: StoredWatch, registry: Registry, seconds: float | None) -> AsyncGenerator[tuple[str, Object], None]:
    """Types and objects of the events of a watch of stored objects.

    Raises:
        StatusError: see `read_watch`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds if seconds is not None else None
    bookmark = loop.time() + _BOOKMARK_SECONDS if watch.options.allow_watch_bookmarks else None
    try:
        await watch.check()
        if watch.sends_initial_events:
            async for found in watch.initial():
                for one in found:
                    yield "ADDED", one.obj if one.obj is not None else await watch.items.decoded(one.item, one.served, one.cluster)
        else:
            await watch.find_start()
        watch.begin()
        while True:
            events = await watch.take()
            if watch.may_convert:
                await watch.convert(events)
            for event in events:
                if (change := await watch.change(event)) is not None:
                    yield change
            if events:
                continue
            now = loop.time()
            over = deadline is not None and now >= deadline
            if bookmark is not None and (over or now >= bookmark):
                bookmark = now + _BOOKMARK_SECONDS
                if registry.fanout.revision > watch.after:
                    yield "BOOKMARK", _bookmark(watch, registry.fanout.revision)
            if over:
                return
            try:
                async with asyncio.timeout_at(min((at for at in (deadline, bookmark) if at is not None), default=None)):
                    await watch.watcher.wait()
            except TimeoutError:
                continue
    except (WatchEndedError, StaleStateError):
        return
    except (CompactedError, WatchOverflowError) as error:
        raise watch.expired(error) from error


def _bookmark(watch: StoredWatch, revision: int) -> Object:
    resource = watch.target.resource
    return {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": {"resourceVersion": str(revision)}}
