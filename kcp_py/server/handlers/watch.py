"""GET with watch: the state there is, then every change, until the client, the clock or the server ends it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial
from typing import Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.fieldselectors import FieldRequirement, FieldSelector
from kcp_py.apimachinery.meta.options import ListOptions, decode_include_object, parse_resource_version
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.scope import ClusterScope, StaleScopeError
from kcp_py.registry.store.access import holds
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.frames import Frames
from kcp_py.server.handlers.list import Listing, list_options, matching, selectable
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import CompactedError
from kcp_py.watchcache import WatchEndedError, Watcher, WatchOverflowError


async def watch(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Stream the changes of a collection as lines of JSON or messages of protobuf, over WebSocket where the client asks for that.

    The headers go out before the first event: clients wait for them. What goes wrong after that is told in an ERROR event.

    Raises:
        StatusError: 503 with Retry-After when the server is shutting down: the client finds another one at once, or this one started
            again (k8s.io/apiserver `server/filters/watch_termination.go`).
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    # From here on the end of the cluster, of the definition or of the server ends this watch.
    watcher = backend.fanout.reserve(
        target.resource.keys.prefix,
        cluster=target.scope.name if target.scope is not None else "",
        namespace=target.namespace,
        name=target.name,
    )
    try:
        await _start(backend, exchange, target, watcher)
    except BaseException:
        await backend.fanout.detach(watcher)
        raise


async def _start(backend: Backend, exchange: Exchange, target: Target, watcher: Watcher) -> None:
    representation = representation_of(exchange, target.resource, watch=True, listed=True)
    options = list_options(exchange, target)
    target = await selectable(backend, target, options)
    include = decode_include_object(exchange.query)
    if len(exchange.context.info.parts) > 1:
        # The deprecated path below /watch/ that ends with a name.
        named = FieldRequirement("metadata.name", "=", target.name)
        options = replace(options, field_selector=FieldSelector([*options.field_selector.requirements, named]))
    selection = Selection(options, target.resource)
    after = parse_resource_version(options.resource_version)
    if target.scope is not None:
        if target.namespace:
            # What is no namespace is refused as by a list, which the watch may begin with when its headers have gone out.
            target.resource.keys.namespace_prefix(target.scope.name, target.namespace)
        await _confirm(backend, target, target.scope)
    frames = Frames(backend, target, representation, selection, include)
    await frames.items.find_columns()
    stream = _Stream(backend, exchange, target, frames, options, watcher=watcher)
    await stream.start(representation)
    exchange.continuation = partial(stream.run, after)


async def _confirm(backend: Backend, target: Target, scope: ClusterScope) -> None:
    """Check that cluster and definition did not change before the watcher was reserved. Later changes end the watcher.

    Raises:
        StaleScopeError: they did.
    """
    await backend.clusters.confirm(scope)
    served = target.served
    if served.per_cluster:
        found = await backend.tables.served_in(scope.name, served)
        if found is None or found.resource is not served.resource:
            raise StaleScopeError(served.guards[0].key if served.guards else served.resource.keys.prefix)


_INITIAL_BYTES: Final = 32 * 1024
"""So much of the initial state is sent at once, a few milliseconds of work."""


class _Stream:
    """One watch."""

    def __init__(
        self, backend: Backend, exchange: Exchange, target: Target, frames: Frames, options: ListOptions, *, watcher: Watcher
    ) -> None:
        self._backend = backend
        self._exchange = exchange
        self._target = target
        self._frames = frames
        self._options = options
        resource = target.resource
        self._events = backend.metrics.events(resource.group, resource.version, resource.resource)
        self._watcher = watcher
        self._gone = False

    async def start(self, representation: Representation) -> None:
        """Send the headers, and notice from now on when the client leaves."""
        await self._exchange.start_watch(representation.stream_content_type, prefix=4 if representation.media == "protobuf" else 0)
        self._exchange.on_disconnect(self._disconnected)

    async def run(self, after: int) -> None:
        """Send everything from `after` on (0: the state there is, then what comes)."""
        exchange = self._exchange
        scope = self._target.scope
        try:
            if scope is not None and 0 < after < scope.created_revision:
                await exchange.send_frames([self._frames.expired(after, scope.created_revision)])
            else:
                await self._refuse_the_future(after)
                if self._wants_initial_events(after):
                    after = await self._send_initial_events()
                else:
                    after = await self._first_revision(after)
                await self._follow(after)
        except CompactedError as error:
            await exchange.send_frames([self._frames.expired(after, error.compact_revision)])
        except WatchOverflowError:
            await exchange.send_frames([self._frames.expired(after, self._backend.fanout.revision)])
        except (WatchEndedError, StaleScopeError, _ClientGoneError):
            pass
        except StatusError as error:
            await exchange.send_frames([self._frames.error(error)])
        finally:
            await self._backend.fanout.detach(self._watcher)
        if not self._gone:
            await exchange.finish()

    async def _refuse_the_future(self, after: int) -> None:
        """Tell a client that knows of a revision which the store has not: it was restored from a backup, and has lost what lies between.

        kube-apiserver does so where initial events are asked for, and is silent otherwise until the store has come so far, with the
        events up to there left out (`cacher.waitUntilWatchCacheFreshAndForceAllEvents`). Told, clients list again.
        """
        if after > self._backend.fanout.revision and after > (current := await self._backend.access.storage.revision()):
            raise errors.too_large_resource_version(after, current)

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
        time_slice = TimeSlice()
        checked = False
        async for found in matching(listing, self._frames.items):
            if not checked:
                await self._check_lives(listing.revision)
                checked = True
            frames: list[bytes] = []
            size = 0
            for position, one in enumerate(found, start=1):
                frame = await self._frames.initial(one.item, one.served, one.cluster, one.obj)
                if frame:
                    frames.append(frame)
                size += len(frame)
                if size < _INITIAL_BYTES and position < len(found):
                    continue
                self._watcher.raise_if_ended()
                await self._exchange.send_frames(frames)
                self._events.record(frames)
                frames, size = [], 0
                await time_slice.yield_if_due()
        revision = listing.revision
        if not checked:
            await self._check_lives(revision)
        self._watcher.raise_if_ended()
        if self._options.send_initial_events and self._options.allow_watch_bookmarks:
            await self._exchange.send_frames([self._frames.bookmark(revision, initial_events_end=True)])
        return revision

    async def _check_lives(self, revision: int) -> None:
        """End the watch where the cluster or the definition was another one at the revision that was read.

        The feed may still be on its way with the end of the one that is watched.
        """
        scope = self._target.scope
        if scope is None:
            return
        lives = (*scope.life, *self._target.served.life)
        if not await holds(self._backend.access.storage, lives, revision=revision):
            raise WatchEndedError

    async def _first_revision(self, after: int) -> int:
        """Where a watch without initial events begins: at `after`, or with the next change where that is 0.

        A cluster that does not exist has no history. What the store still has of its name belonged to another one: a client that knows
        objects of that one has to list again, and others see only what is to come.

        Raises:
            CompactedError: an earlier cluster of the name existed at `after`.
        """
        storage, scope = self._backend.access.storage, self._target.scope
        if after and (scope is None or scope.created_revision):
            return after
        current = await storage.revision()
        if not after:
            await self._check_lives(current)
            return current
        if scope is None or after >= current:
            return after
        if not await holds(storage, scope.life, revision=after):
            raise CompactedError(after, current)
        await self._check_lives(current)
        return current

    async def _follow(self, after: int) -> None:
        watcher = self._watcher
        # What the end has left of the history may belong to another cluster or definition of the same name.
        watcher.raise_if_ended()
        self._backend.fanout.begin(watcher, after)
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
                    if bookmarks and self._backend.fanout.revision > after:
                        sent = max(sent, self._backend.fanout.revision)
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
        self._watcher.end(_ClientGoneError())


class _ClientGoneError(Exception):
    """Nobody is listening any more."""
