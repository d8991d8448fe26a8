"""GET with watch: the state there is, then every change, until the client, the clock or the server ends it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial
from typing import Final

from kcp_py.aio.turns import Turns
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fieldselectors import FieldRequirement, FieldSelector
from kcp_py.apimachinery.metaoptions import ListOptions, decode_include_object, parse_resource_version
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.frames import Frames
from kcp_py.server.handlers.list import Listing, list_options, matching
from kcp_py.server.handlers.selection import Selection
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import CompactedError
from kcp_py.watchcache import WatchEndedError, Watcher, WatchOverflowError


async def watch(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Stream the changes of a collection as lines of JSON or messages of protobuf, over WebSocket where the client asks for that.

    The headers go out before the first event: clients wait for them. What goes wrong after that is told in an ERROR event.

    Raises:
        StatusError: 503 with Retry-After when the server is shutting down: the client finds another one at once, or this one started
            again (k8s.io/apiserver `server/filters/watch_termination.go`); 504 where initial events are asked for of a revision that
            has not happened.
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    representation = representation_of(exchange, target.resource, watch=True, listed=True)
    options = list_options(exchange, target)
    include = decode_include_object(exchange.query)
    if len(exchange.context.info.parts) > 1:
        # The deprecated path below /watch/ that ends with a name.
        named = FieldRequirement("metadata.name", "=", target.name)
        options = replace(options, field_selector=FieldSelector([*options.field_selector.requirements, named]))
    selection = Selection(options, target.resource)
    after = parse_resource_version(options.resource_version, str(target.resource.group_resource))
    if options.send_initial_events and after > backend.feed.revision and after > (current := await backend.access.storage.revision()):
        raise errors.too_large_resource_version(after, current)
    stream = _Stream(backend, exchange, target, Frames(backend, target, representation, selection, include), options)
    await stream.start(representation)
    exchange.continuation = partial(stream.run, after)


_INITIAL_BYTES: Final = 32 * 1024
"""So much of the initial state is sent at once, a few milliseconds of work."""


class _Stream:
    """One watch."""

    def __init__(self, backend: Backend, exchange: Exchange, target: Target, frames: Frames, options: ListOptions) -> None:
        self._backend = backend
        self._exchange = exchange
        self._target = target
        self._frames = frames
        self._options = options
        resource = target.resource
        self._events = backend.metrics.events(resource.group, resource.version, resource.resource)
        self._watcher: Watcher | None = None
        self._gone = False

    async def start(self, representation: Representation) -> None:
        """Send the headers, and notice from now on when the client leaves."""
        await self._exchange.start_watch(representation.stream_content_type, prefix=4 if representation.media == "protobuf" else 0)
        self._exchange.on_disconnect(self._disconnected)

    async def run(self, after: int) -> None:
        """Send everything from `after` on (0: the state there is, then what comes)."""
        exchange = self._exchange
        scope = self._target.scope
        too_old = scope is not None and 0 < after < scope.created_revision
        try:
            if too_old:
                assert scope is not None
                await exchange.send_frames([self._frames.expired(after, scope.created_revision)])
            else:
                if self._wants_initial_events(after):
                    after = await self._send_initial_events()
                elif not after:
                    after = await self._backend.access.storage.revision()
                await self._follow(after)
        except CompactedError as error:
            await exchange.send_frames([self._frames.expired(after, error.compact_revision)])
        except WatchOverflowError:
            await exchange.send_frames([self._frames.expired(after, self._backend.feed.revision)])
        except (WatchEndedError, _ClientGoneError):
            pass
        except StatusError as error:
            await exchange.send_frames([self._frames.error(error)])
        finally:
            if self._watcher is not None:
                await self._backend.feed.detach(self._watcher)
        if not self._gone:
            await exchange.finish()

    def _wants_initial_events(self, after: int) -> bool:
        if self._options.send_initial_events is not None:
            return self._options.send_initial_events
        return not after

    async def _send_initial_events(self) -> int:
        """The state there is, as ADDED events; returns its revision."""
        bare = self._options.__class__(
            label_selector=self._options.label_selector,
            field_selector=self._options.field_selector,
            resource_version=self._options.resource_version,
        )
        listing = Listing(self._backend, self._target, bare)
        turns = Turns()
        async for found in matching(listing, self._frames.items):
            frames: list[bytes] = []
            size = 0
            for position, one in enumerate(found, start=1):
                frame = await self._frames.initial(one.item, one.served, one.cluster, one.obj)
                frames.append(frame)
                size += len(frame)
                if size < _INITIAL_BYTES and position < len(found):
                    continue
                if self._gone:
                    raise _ClientGoneError
                if self._backend.shutting_down:
                    raise WatchEndedError
                await self._exchange.send_frames(frames)
                self._events.record(frames)
                frames, size = [], 0
                await turns.take()
        revision = listing.revision
        if self._options.send_initial_events and self._options.allow_watch_bookmarks:
            await self._exchange.send_frames([self._frames.bookmark(revision, initial_events_end=True)])
        return revision

    async def _follow(self, after: int) -> None:
        if self._backend.shutting_down:
            # It began before, but was not attached yet when the others were ended.
            return
        target = self._target
        watcher = self._watcher = self._backend.feed.attach(
            target.resource.keys.prefix,
            cluster=target.scope.name if target.scope is not None else "",
            namespace=target.namespace,
            name=target.name,
            after=after,
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout()
        bookmarks = self._options.allow_watch_bookmarks
        interval = self._backend.limits.bookmark_seconds
        next_bookmark = loop.time() + interval * random.uniform(0.75, 1.25) if bookmarks else deadline
        alarms = self._backend.alarms
        alarm = alarms.set(min(deadline, next_bookmark), watcher)
        sent = after
        try:
            while not self._gone:
                if revision := await self._send_events(watcher):
                    sent = revision
                    continue
                now = loop.time()
                if now >= min(deadline, next_bookmark):
                    if bookmarks and self._backend.feed.revision > after:
                        sent = max(sent, self._backend.feed.revision)
                        await self._exchange.send_frames([self._frames.bookmark(sent)])
                    if now >= deadline:
                        return
                    next_bookmark = now + interval
                    alarm = alarms.set(min(deadline, next_bookmark), watcher)
                    continue
                await watcher.wait()
        finally:
            alarms.cancel(alarm, watcher)

    async def _send_events(self, watcher: Watcher) -> int:
        """Send what has come, and return its last revision, 0 for none.

        A frame of its own: what it held is gone when the watch goes to sleep, where variables of `_follow` would keep the last frames of
        every idle watch in memory.
        """
        events = await watcher.take()
        if not events:
            return 0
        if frames := await self._frames.encode(events):
            await self._exchange.send_frames(frames)
            self._events.record(frames)
        return events[-1].mod_revision

    def _timeout(self) -> float:
        if self._options.timeout_seconds:
            return float(self._options.timeout_seconds)
        return self._backend.limits.min_watch_seconds * random.uniform(1, 2)

    def _disconnected(self) -> None:
        self._gone = True
        if self._watcher is not None:
            self._watcher.end(_ClientGoneError())


class _ClientGoneError(Exception):
    """Nobody is listening any more."""
