"""GET with watch: the state there is, then every change, until the client, the clock or the server ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fieldselectors import FieldRequirement, FieldSelector
from kcp_py.apimachinery.metaoptions import ListOptions, decode_include_object, parse_resource_version
from kcp_py.apimachinery.partial import partial_object_metadata
from kcp_py.apimachinery.table import IncludeObject, column_definitions, table_row
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import rendered, representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.items import Items
from kcp_py.server.handlers.list import Listing, list_options, matching
from kcp_py.server.handlers.selection import Selection
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import CompactedError, KeyValue
from kcp_py.watchcache import ObjectEvent, WatchEndedError, Watcher, WatchOverflowError

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def watch(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Stream the changes of a collection as JSON lines.

    The headers go out before the first event: clients wait for them. What goes wrong after that is told in an ERROR event.

    Raises:
        StatusError: 503 with Retry-After when the server is shutting down: the client finds another one at once, or this one started
            again (k8s.io/apiserver `server/filters/watch_termination.go`); 504 where initial events are asked for of a revision that
            has not happened.
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    representation = representation_of(exchange, watch=True)
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
    stream = _Stream(backend, exchange, target, _Frames(backend, target, representation, selection, include), options)
    await stream.start()
    exchange.continuation = partial(stream.run, after)


class _Stream:
    """One watch."""

    def __init__(self, backend: Backend, exchange: Exchange, target: Target, frames: _Frames, options: ListOptions) -> None:
        self._backend = backend
        self._exchange = exchange
        self._target = target
        self._frames = frames
        self._options = options
        self._watcher: Watcher | None = None
        self._gone = False

    async def start(self) -> None:
        """Send the headers, and notice from now on when the client leaves."""
        self._exchange.on_disconnect(self._disconnected)
        await self._exchange.start_stream()

    async def run(self, after: int) -> None:
        """Send everything from `after` on (0: the state there is, then what comes)."""
        exchange = self._exchange
        scope = self._target.scope
        too_old = scope is not None and 0 < after < scope.created_revision
        try:
            if too_old:
                assert scope is not None
                await exchange.send_chunk(_expired(after, scope.created_revision))
            else:
                if self._wants_initial_events(after):
                    after = await self._send_initial_events()
                elif not after:
                    after = await self._backend.access.storage.revision()
                await self._follow(after)
        except CompactedError as error:
            await exchange.send_chunk(_expired(after, error.compact_revision))
        except WatchOverflowError:
            await exchange.send_chunk(_expired(after, self._backend.feed.revision))
        except (WatchEndedError, _ClientGoneError):
            pass
        except StatusError as error:
            await exchange.send_chunk(_line("ERROR", orjson.dumps(error.to_status())))
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
        async for found in matching(listing, self._frames.items):
            parts = [await self._frames.initial(one.item, one.served, one.cluster, one.obj) for one in found]
            if self._gone:
                raise _ClientGoneError
            if self._backend.shutting_down:
                raise WatchEndedError
            await self._exchange.send_chunk(b"".join(parts))
        revision = listing.revision
        if self._options.send_initial_events and self._options.allow_watch_bookmarks:
            await self._exchange.send_chunk(self._frames.bookmark(revision, initial_events_end=True))
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
                        await self._exchange.send_chunk(self._frames.bookmark(sent))
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
            await self._exchange.send_chunk(frames)
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


class _Frames:
    """Events as the watcher's lines. A line is made once per event and form, and shared by all who watch in that form."""

    def __init__(
        self, backend: Backend, target: Target, representation: Representation, selection: Selection, include: IncludeObject
    ) -> None:
        self._backend = backend
        self._target = target
        self._representation = representation
        self._selection = selection
        self._include: IncludeObject = include
        self.items = Items(backend, target, representation, include)
        resource = target.resource
        self._form = (resource.group_version, representation.transform, representation.transform_version, include, self.items.wildcard)
        self._headers_due = representation.transform == "Table"
        self._may_convert = resource.converter is not None or (self.items.wildcard and bool(target.served.definition_key))

    async def encode(self, events: Sequence[ObjectEvent]) -> bytes:
        """The lines of several events; empty where the selection leaves nothing.

        Raises:
            StatusError: an object cannot be brought to the version that is watched.
        """
        if self._may_convert:
            await self._convert(events)
        if len(events) == 1:
            return await self._line(events[0])
        return b"".join([await self._line(event) for event in events])

    async def initial(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None) -> bytes:
        """A synthetic ADDED event."""
        return _line("ADDED", await self._object(item, served, cluster, obj))

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """An event that says nothing but how far the watch has come."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {_INITIAL_EVENTS_END: "true"}
        resource = self._target.resource
        api_version = f"meta.k8s.io/{self._representation.transform_version}"
        document: dict[str, Any]
        match self._representation.transform:
            case "Table":
                document = {"kind": "Table", "apiVersion": api_version, "metadata": metadata, "columnDefinitions": None, "rows": []}
                if initial_events_end:
                    partial = {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
                    document["rows"] = [{"cells": [None] * len(resource.columns), "object": partial}]
                document["metadata"] = {"resourceVersion": str(revision)}
            case "":
                document = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
            case _:
                document = {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
        return _line("BOOKMARK", orjson.dumps(document))

    async def _line(self, event: ObjectEvent) -> bytes:
        cluster = Name(event.route.cluster)
        served = await self._served(event, cluster)
        if served is None:
            return b""
        if self._selection.empty:
            selected_now, selected_before = event.value is not None, event.previous is not None
        else:
            selected_now = event.value is not None and self._selection.matches(await self._decoded(event, served, cluster, now=True))
            selected_before = event.previous is not None and self._selection.matches(await self._decoded(event, served, cluster, now=False))
        if selected_now:
            return await self._remembered(event, served, cluster, "MODIFIED" if selected_before else "ADDED")
        if selected_before:
            return await self._remembered(event, served, cluster, "DELETED")
        return b""

    async def _served(self, event: ObjectEvent, cluster: Name) -> Served | None:
        served = self._target.served
        if not self.items.wildcard or not served.definition_key:
            return served
        table = self._backend.tables.cached(cluster) or await self._backend.tables.get(cluster)
        resource = served.resource
        found = table.find(resource.group, resource.version, resource.resource)
        if found is None and event.value is None:
            # The definition may be gone with its last objects: their end is still told, in the form of the others.
            return served
        return found

    async def _remembered(self, event: ObjectEvent, served: Served, cluster: Name, kind: str) -> bytes:
        if self._headers_due:
            return _line(kind, await self._object(_item(event, kind), served, cluster, None))
        key = (self._form, kind, served.resource)
        line = event.memo.get(key)
        if line is None:
            obj = event.memo.get(self._object_key(served, now=kind != "DELETED"))
            line = event.memo[key] = _line(kind, await self._object(_item(event, kind), served, cluster, obj))
        return line

    def _object_key(self, served: Served, *, now: bool) -> tuple[object, ...]:
        return ("object", now, served.resource, self.items.wildcard)

    async def _convert(self, events: Sequence[ObjectEvent]) -> None:
        """Have everything converted that somebody else converts, once for all who watch it, and all of a cluster together."""
        tasks: dict[asyncio.Task[None], None] = {}
        unconverted: dict[Name, list[tuple[ObjectEvent, bool, Served]]] = {}
        selective = not self._selection.empty
        for event in events:
            cluster = Name(event.route.cluster)
            served = await self._served(event, cluster)
            if served is None or served.resource.converter is None:
                continue
            for now in (True, False):
                if (event.value if now else event.previous) is None or not (now or selective or event.value is None):
                    continue
                known = event.memo.get(self._object_key(served, now=now))
                if known is None:
                    unconverted.setdefault(cluster, []).append((event, now, served))
                elif isinstance(known, asyncio.Task):
                    tasks[known] = None
        for cluster, states in unconverted.items():
            task = asyncio.ensure_future(self._convert_together(cluster, states))
            # Who waits may leave, all of them even: that nobody has asked for a failure is none.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            for event, now, served in states:
                event.memo[self._object_key(served, now=now)] = task
            tasks[task] = None
        for task in tasks:
            await asyncio.shield(task)

    async def _convert_together(self, cluster: Name, states: Sequence[tuple[ObjectEvent, bool, Served]]) -> None:
        """Put the converted objects in the place of the task that this is; nothing where they can be answered as they are stored."""
        items = [(_item(event, "MODIFIED" if now else "DELETED"), served, cluster) for event, now, served in states]
        objects: Sequence[dict[str, Any] | None] = [None] * len(states)
        try:
            objects = await self.items.converted(items, needed=not self._selection.empty)
        finally:
            for (event, now, served), obj in zip(states, objects, strict=True):
                key = self._object_key(served, now=now)
                if obj is None:
                    event.memo.pop(key, None)
                else:
                    event.memo[key] = obj

    async def _decoded(self, event: ObjectEvent, served: Served, cluster: Name, *, now: bool) -> dict[str, Any]:
        key = self._object_key(served, now=now)
        obj = event.memo.get(key)
        if obj is None:
            item = _item(event, "MODIFIED" if now else "DELETED")
            obj = event.memo[key] = await self.items.decoded(item, served, cluster)
        return obj

    async def _object(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None) -> bytes:
        transform = self._representation.transform
        if not transform:
            body = rendered(served, item, cluster, wildcard=self.items.wildcard)
            if body is not None:
                return body
        if obj is None:
            obj = await self.items.shown(item, served, cluster)
        api_version = f"meta.k8s.io/{self._representation.transform_version}"
        match transform:
            case "":
                return served.resource.renderer.encode(obj)
            case "Table":
                columns = served.resource.columns
                row = table_row(obj, columns, self._backend.clock(), include_object=self._include, api_version=api_version)
                headers = column_definitions(columns) if self._headers_due else None
                self._headers_due = False
                metadata = {"resourceVersion": str(item.mod_revision)}
                document = {"kind": "Table", "apiVersion": api_version, "metadata": metadata}
                return orjson.dumps({**document, "columnDefinitions": headers, "rows": [row]})
            case _:
                return orjson.dumps(partial_object_metadata(obj, api_version))


def _item(event: ObjectEvent, kind: str) -> KeyValue:
    """The state that an event shows: the new one, or for DELETED the last one, at the revision of the change."""
    if kind != "DELETED":
        assert event.value is not None
        return KeyValue("", event.value, event.mod_revision, event.create_revision)
    assert event.previous is not None
    return KeyValue(event.previous.key, event.previous.value, event.mod_revision, event.create_revision)


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


def _expired(asked: int, oldest: int) -> bytes:
    error = errors.expired(f"too old resource version: {asked} ({oldest})")
    return _line("ERROR", orjson.dumps(error.to_status()))
