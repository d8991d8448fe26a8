"""The changes of one resource in all clusters, between which the objects that are there already come, and how far readers have come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.tap import ObjectChange, ObjectFilter
from kcp_py.logicalcluster import Name
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import KeyValue, Storage, StorageError
from kcp_py.storage.keys import ResourceKeys
from kcp_py.storage.paging import read_pages
from kcp_py.watchcache import Fanout, WatchEndedError, Watcher, WatchOverflowError

_CHUNK: Final = 50
"""Existing objects that are read at once, between changes. CRDs are large, so there are few."""


class Follower:
    """One reader of the changes of a resource."""

    __slots__ = ("_fanout", "_revision", "position", "prefix", "start", "watcher")

    def __init__(self, fanout: Fanout, prefix: str, start: str) -> None:
        """Begin.

        Args:
            fanout: the changes.
            prefix: of the keys of the resource.
            start: the key at which existing objects are read first. Those before it follow.
        """
        self.prefix = prefix
        self.start = start
        self.position: str | None = start
        """The key from which on existing objects are read next; None where all have been read."""
        self.watcher: Watcher | None = None
        """While the reader sleeps."""
        self._fanout = fanout
        self._revision = fanout.revision

    @property
    def revision(self) -> int:
        """The reader has dealt with all changes of the resource up to this revision."""
        watcher = self.watcher
        if watcher is not None and not (watcher.unread or watcher.has_backlog or watcher.ended):
            return self._fanout.revision
        return self._revision

    def caught_up(self) -> None:
        """Note that the reader has dealt with all changes of this moment."""
        self._revision = self._fanout.revision


class Followers:
    """All readers of changes of one process."""

    def __init__(self, fanout: Fanout) -> None:
        """Begin without readers.

        Args:
            fanout: the changes.
        """
        self.fanout = fanout
        self._all: set[Follower] = set()
        self._missed = False
        self.starts: Mapping[str, str] = {}
        """Prefix -> where new readers begin to read existing objects."""
        fanout.listen_gaps(self.miss)

    def add(self, prefix: str) -> Follower:
        """A reader of the changes from now on."""
        start = self.starts.get(prefix, "")
        follower = Follower(self.fanout, prefix, start if start.startswith(prefix) else "")
        self._all.add(follower)
        return follower

    def remove(self, follower: Follower) -> None:
        """End a reader."""
        self._all.discard(follower)

    def miss(self) -> None:
        """Note that readers have missed changes, and deal with them when they have read all objects."""
        self._missed = True

    @property
    def revision(self) -> int | None:
        """All readers have dealt with all changes up to this revision; None where some have missed changes."""
        if self._missed and self.reading:
            return None
        self._missed = False
        return min((one.revision for one in self._all), default=self.fanout.revision)

    @property
    def reading(self) -> bool:
        """Whether readers still have to read existing objects."""
        return any(one.position is not None for one in self._all)

    @property
    def positions(self) -> Mapping[str, str]:
        """Prefix -> the key from which on existing objects are read next, while they are read."""
        return {one.prefix: one.position for one in self._all if one.position}


async def scan_changes(
    storage: Storage, followers: Followers, keys: ResourceKeys, *, resource: GroupResource, wanted: ObjectFilter, throttle: Throttle
) -> AsyncGenerator[ObjectChange, None]:
    """Every change from now on, and between changes the existing objects that are wanted.

    Args:
        storage: the store.
        followers: its changes, and their readers.
        keys: of the resource.
        resource: the resource.
        wanted: which existing objects are shown.
        throttle: passed before each page of existing objects. It does not delay changes.

    Raises:
        StatusError: the store cannot be read.
    """
    fanout = followers.fanout
    follower = followers.add(keys.prefix)
    try:
        while True:
            watcher = fanout.attach(keys.prefix, after=fanout.revision)
            pages = _existing(storage, follower)
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
                    follower.caught_up()
                    follower.watcher = watcher
                    if follower.position is None:
                        await watcher.wait()
                        follower.watcher = None
                        continue
                    if turn is None:
                        turn = asyncio.create_task(throttle.take())
                    await asyncio.wait((turn, watcher.wait()), return_when=asyncio.FIRST_COMPLETED)
                    follower.watcher = None
                    if not turn.done():
                        continue
                    turn = None
                    page = await anext(pages, None)
                    if page is None:
                        follower.position = None
                        continue
                    for item in page:
                        if wanted.matches(item.value):
                            key = keys.locate(item.key)
                            yield ObjectChange(key.cluster, resource, key.namespace, key.name, item.value, None)
            except WatchEndedError:
                return
            except WatchOverflowError:
                followers.miss()
                follower.position = follower.start
                continue
            except StorageError as error:
                raise translate(error) from error
            finally:
                follower.watcher = None
                if turn is not None:
                    turn.cancel()
                await pages.aclose()
                await fanout.detach(watcher)
    finally:
        followers.remove(follower)


async def _existing(storage: Storage, follower: Follower) -> AsyncGenerator[Sequence[KeyValue], None]:
    """The objects that exist, page by page: from the start of the reader on, and then those before it."""
    prefix, start = follower.prefix, follower.start
    for begin, end in ((start, ""), ("", start)) if start else (("", ""),):
        pages = read_pages(storage, prefix, limit=_CHUNK, start=begin)
        async with aclosing(pages):
            async for page in pages:
                yield [item for item in page.items if item.key < end] if end else page.items
                last = max((*(item.key for item in page.items[-1:]), *page.damaged), default="")
                if last:
                    follower.position = last + "\x00"
                if end and last >= end:
                    break
