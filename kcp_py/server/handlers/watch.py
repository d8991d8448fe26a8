"""GET with watch: the state there is, then every change, until the client, the clock or the server ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from kcp_py.aio.clock import Schedule
from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.fieldselectors import FieldRequirement, FieldSelector
from kcp_py.apimachinery.meta.options import ListOptions, decode_include_object, decode_list_options
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.rest.computedwatch import ComputedWatch
from kcp_py.registry.rest.sighthorizon import SightHorizon
from kcp_py.registry.rest.storage import INITIAL_EVENTS_END, ObjectEvent, ReadRequest
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.directwriting import chunk_writer
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.watchencoder import SharedFrame, WatchEncoder
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import CompactedError
from kcp_py.watchcache import ObjectEvent as StoredEvent
from kcp_py.watchcache import WatchCutError, WatchEndedError, Watcher, WatchOverflowError, WatchRevokedError

_INITIAL_BYTES: Final = 32 * 1024
"""So much of the initial state is sent at once, a few milliseconds of work."""
_WRITTEN_EVENTS: Final = 100
"""More events are left to the task of the watch, which lets others have their turns between them."""
_WRITTEN_BYTES: Final = 256 * 1024
"""More is left to the task of the watch, which waits for the client between the pieces."""


async def watch(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Stream the changes of a collection as lines of JSON or messages of protobuf, over WebSocket where the client asks for that.

    The headers go out before the first event: clients wait for them. What goes wrong after that is told in an ERROR event.

    Raises:
        StatusError: 503 with Retry-After when the server is shutting down: the client finds another one at once, or this one started
            again (k8s.io/apiserver `server/filters/watch_termination.go`).
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    representation = representation_of(exchange, target.resource, watch=True, listed=True)
    options = decode_list_options(exchange.parameters.values)
    if len(exchange.context.info.parts) > 1:
        # The deprecated path below /watch/ that ends with a name.
        named = FieldRequirement("metadata.name", "=", target.name)
        options = replace(options, field_selector=FieldSelector([*options.field_selector.requirements, named]))
    # From here on the end of the cluster, of the CRD or of the server ends this watch.
    source = backend.verbs.of(target).watch(ReadRequest(exchange.context, target, options))
    try:
        await source.start()
        stream = await _stream_of(backend, exchange, source, representation, options)
        await exchange.start_watch(representation.stream_content_type, prefix=4 if representation.media == "protobuf" else 0)
        exchange.on_disconnect(stream.disconnected)
        exchange.end = stream.end
    except BaseException:
        await source.aclose()
        raise
    schedule = backend.call_when_past
    exchange.continuation = stream.run if schedule is None else partial(_run_by_clock, stream, schedule)


async def _run_by_clock(stream: _StoredStream | _ComputedStream, schedule: Schedule) -> None:
    """Run a watch that also ends when its time is over by a clock that a test sets forward."""
    timer = schedule(stream.seconds, stream.expire)
    try:
        await stream.run()
    finally:
        timer.cancel()


async def _stream_of(
    backend: Backend, exchange: Exchange, source: StoredWatch | ComputedWatch, representation: Representation, options: ListOptions
) -> _StoredStream | _ComputedStream:
    include = decode_include_object(exchange.parameters.values)
    seconds = float(options.timeout_seconds or backend.limits.min_watch_seconds * random.uniform(1, 2))
    if isinstance(source, ComputedWatch):
        return _ComputedStream(exchange, source, WatchEncoder(backend, source.target, representation, include), seconds)
    encoder = WatchEncoder(backend, source.target, representation, include, watch=source)
    await encoder.items.find_columns()
    return _StoredStream(backend, exchange, source, encoder, seconds)


class _Stream:
    """One watch and its client."""

    __slots__ = ("_encoder", "_exchange", "_gone", "_watcher", "seconds")

    def __init__(self, exchange: Exchange, encoder: WatchEncoder, watcher: Watcher, seconds: float) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._watcher = watcher
        self.seconds = seconds
        """How long the watch lasts."""
        self._gone = False

    def disconnected(self) -> None:
        """End the watch of a client that has left."""
        self._gone = True
        self._watcher.end(_ClientGoneError())

    def end(self, reason: Exception | None = None) -> None:
        """End the watch: of a caller that may not watch any more, whose events that were not sent yet are dropped, or for a reason."""
        self._watcher.end(WatchRevokedError() if reason is None else reason)


class _ComputedStream(_Stream):
    """Sends what the code of a resource tells."""

    __slots__ = ("_watch",)

    def __init__(self, exchange: Exchange, watch: ComputedWatch, encoder: WatchEncoder, seconds: float) -> None:
        super().__init__(exchange, encoder, watch.watcher, seconds)
        self._watch = watch

    def expire(self) -> None:
        """End the watch as at the end of its time."""
        self._watcher.end(WatchEndedError())

    async def run(self) -> None:
        """Send changes until there are no more."""
        try:
            async with aclosing(self._watch.changes(self.seconds)) as changes:
                async for change in changes:
                    await self._exchange.send_frames([self._frame(change)])
        except StatusError as error:
            await self._exchange.send_frames([self._encoder.error(error)])
        except WatchCutError:
            self._gone = True
            await self._exchange.abort()
        finally:
            await self._watch.aclose()
        if not self._gone:
            await self._exchange.finish()

    def _frame(self, change: ObjectEvent) -> bytes:
        if change.type != "BOOKMARK":
            return self._encoder.of_object(change.type, change.obj)
        metadata = change.obj["metadata"]
        return self._encoder.bookmark(
            int(metadata["resourceVersion"]), initial_events_end=INITIAL_EVENTS_END in metadata.get("annotations", {})
        )


class _StoredStream(_Stream):
    """Sends what happens in the store."""

    __slots__ = ("_backend", "_events", "_expired", "_form", "_watch", "_write_chunk")

    def __init__(self, backend: Backend, exchange: Exchange, watch: StoredWatch, encoder: WatchEncoder, seconds: float) -> None:
        super().__init__(exchange, encoder, watch.watcher, seconds)
        self._backend = backend
        self._watch = watch
        self._events = backend.metrics.events(*watch.target.resource.key)
        self._form = encoder.shared
        self._write_chunk = chunk_writer(exchange.send) if encoder.shared is not None else None
        self._expired = False

    def expire(self) -> None:
        """End the watch as at the end of its time."""
        self._expired = True
        self._watcher.wake()

    async def run(self) -> None:
        """Send the initial state where it is asked for, then what comes."""
        exchange, watch = self._exchange, self._watch
        try:
            await watch.check()
            if watch.sends_initial_events:
                await self._send_initial_events()
            else:
                await watch.find_start()
            watch.begin()
            await self._follow(watch.after)
        except (CompactedError, WatchOverflowError) as error:
            await exchange.send_frames([self._encoder.error(watch.expired(error))])
        except (WatchEndedError, StaleStateError, _ClientGoneError):
            pass
        except StatusError as error:
            await exchange.send_frames([self._encoder.error(error)])
        except WatchCutError:
            self._gone = True
            await exchange.abort()
        finally:
            await watch.aclose()
        if not self._gone:
            await exchange.finish()

    async def _send_initial_events(self) -> None:
        """The state there is, as ADDED events."""
        watch = self._watch
        time_slice = TimeSlice()
        async for found in watch.initial():
            frames: list[bytes] = []
            size = 0
            for position, one in enumerate(found, start=1):
                frame = await self._encoder.initial(one.item, one.served, one.cluster, one.obj)
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
            # Free it before the next portion is read.
            del found
        if watch.options.send_initial_events and watch.options.allow_watch_bookmarks:
            await self._exchange.send_frames([self._encoder.bookmark(watch.after, initial_events_end=True)])

    async def _follow(self, after: int) -> None:
        watcher = self._watcher
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.seconds
        bookmarks = self._watch.options.allow_watch_bookmarks
        interval = self._backend.limits.bookmark_seconds
        next_bookmark = loop.time() + interval * random.uniform(0.75, 1.25) if bookmarks else deadline
        alarms = self._backend.alarms
        alarm = alarms.set(min(deadline, next_bookmark), watcher)
        if self._write_chunk is not None:
            watcher.deliver_to(self, self._backend.fanout.deliveries)
        # Of what this task has sent. What `write` sends was distributed before.
        sent = after
        try:
            while not self._gone:
                if revision := await self._send_events():
                    sent = revision
                    continue
                now = loop.time()
                if self._expired or now >= min(deadline, next_bookmark):
                    if bookmarks and self._backend.fanout.revision > after:
                        sent = max(sent, self._backend.fanout.revision)
                        await self._exchange.send_frames([self._encoder.bookmark(sent)])
                    if self._expired or now >= deadline:
                        return
                    next_bookmark = now + interval
                    alarm = alarms.set(min(deadline, next_bookmark), watcher)
                    continue
                await watcher.wait()
        finally:
            alarms.cancel(alarm, watcher)
            watcher.deliver_to(None, None)

    def write(self, events: Sequence[StoredEvent]) -> bool | None:
        """Send events while the task of this watch sleeps: the frames are shared with others, and nothing waits (`Subscriber`)."""
        assert self._write_chunk is not None
        if len(events) > _WRITTEN_EVENTS:
            return False
        form = self._form
        shared: list[SharedFrame] = []
        for event in events:
            frame: SharedFrame | None = event.memo.get(form)
            if frame is None:
                return None
            if frame.size:
                shared.append(frame)
        if not shared:
            return True
        chunk = shared[0].chunk if len(shared) == 1 else b"".join([frame.chunk for frame in shared])
        if len(chunk) > _WRITTEN_BYTES or not self._write_chunk(chunk):
            return False
        size = 0
        for frame in shared:
            size += frame.size
            self._events.sizes.observe(frame.size)
        self._exchange.sent_bytes += size
        return True

    async def prepare(self, events: Sequence[StoredEvent]) -> None:
        """Make the frames that `write` needs."""
        if len(events) <= _WRITTEN_EVENTS:
            await self._encoder.encode(events)

    async def _send_events(self) -> int:
        """Send what has come, and return its last revision, 0 for none.

        A frame of its own: what it held is gone when the watch goes to sleep, where variables of `_follow` would keep the last frames of
        every idle watch in memory.
        """
        watch = self._watch
        events = await watch.take()
        revision = await self._send_sight(watch.horizon) if watch.horizon is not None and watch.horizon.came_to else 0
        if not events:
            return revision
        if frames := await self._encoder.encode(events):
            await self._exchange.send_frames(frames)
            self._events.record(frames)
        return events[-1].mod_revision

    async def _send_sight(self, horizon: SightHorizon) -> int:
        """Tell a client that has got objects of a cluster that came into sight where to resume. The revision of that change."""
        revision, horizon.came_to = horizon.came_to, 0
        if self._watch.options.allow_watch_bookmarks:
            await self._exchange.send_frames([self._encoder.bookmark(revision)])
        return revision


class _ClientGoneError(Exception):
    """The client has left."""
