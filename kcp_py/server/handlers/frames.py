"""The events of a watch as its client gets them: lines of JSON, or protobuf with lengths."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import IncludeObject, column_definitions, table_row
from kcp_py.apimachinery.serializer.protobuf import ProtobufError, encode_object, encode_watch_event
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.selection import Selection
from kcp_py.server.handlers.answer import rendered
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.items import UNCONVERTED, Items
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import KeyValue
from kcp_py.watchcache import ObjectEvent

_COMPUTED: Final = KeyValue("", b"", 0, 0)
"""Stands for the stored form of a computed object."""
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Frames:
    """Makes the frames of one watch. A frame is made once per event and form, and shared by all who watch in that form."""

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
        self._protobuf = representation.media == "protobuf"
        # The kinds of frames are few, and watches are many: what they share is not held by each.
        self._frame = encode_watch_event if self._protobuf else _line
        self._form = (representation, resource.group_version, include, self.items.wildcard)
        self._table = representation.transform == "Table"
        self._may_convert = resource.converter is not None or (self.items.wildcard and target.served.per_cluster)

    async def encode(self, events: Sequence[ObjectEvent]) -> list[bytes]:
        """The frames of several events; empty where the selection leaves nothing.

        Raises:
            StatusError: an object cannot be brought to the version that is watched.
        """
        if self._may_convert:
            await self._convert(events)
        if len(events) == 1:
            frame = await self._of(events[0])
            return [frame] if frame else []
        frames: list[bytes] = []
        time_slice = TimeSlice()
        for event in events:
            if frame := await self._of(event):
                frames.append(frame)
            await time_slice.yield_if_due()
        return frames

    async def initial(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None) -> bytes:
        """A synthetic ADDED event; empty for an object of one of all clusters that cannot be shown."""
        try:
            return self._frame("ADDED", await self._object(item, served, cluster, obj))
        except StatusError:
            if not self.items.wildcard:
                raise
            return b""

    async def of_object(self, kind: str, obj: dict[str, Any], served: Served, cluster: Name) -> bytes:
        """An event about an object that no store holds, as it is to be shown but for the representation."""
        return self._frame(kind, await self._object(_COMPUTED, served, cluster, obj))

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """An event that says nothing but how far the watch has come."""
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {_INITIAL_EVENTS_END: "true"}
        resource = self._target.resource
        api_version = self._representation.api_version
        document: dict[str, Any]
        match self._representation.transform:
            case "Table":
                document = {"kind": "Table", "apiVersion": api_version, "metadata": metadata, "columnDefinitions": None, "rows": []}
                if initial_events_end:
                    partial = {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
                    document["rows"] = [{"cells": [None] * len(self.items.columns.union), "object": partial}]
                document["metadata"] = {"resourceVersion": str(revision)}
            case "":
                document = {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}
            case _:
                document = {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}
        return self._frame("BOOKMARK", self._encoded(document))

    def error(self, error: StatusError) -> bytes:
        """What goes wrong behind the beginning of the answer."""
        return self._frame("ERROR", self._encoded(error.to_status()))

    def expired(self, asked: int, oldest: int) -> bytes:
        """What a watch ends with that asked for a revision that is no longer kept."""
        return self.error(errors.expired(f"too old resource version: {asked} ({oldest})"))

    async def _of(self, event: ObjectEvent) -> bytes:
        cluster = Name(event.route.cluster)
        served = await self._served(event, cluster)
        if served is None:
            return b""
        try:
            return await self._shown(event, served, cluster)
        except StatusError:
            if not self.items.wildcard:
                raise
            # No cluster ends the watch of all clusters: what it does not convert is left out, but for the end of its objects.
            return self._frame("DELETED", await self._end_of(event, served, cluster)) if event.value is None else b""

    async def _end_of(self, event: ObjectEvent, served: Served, cluster: Name) -> bytes:
        """An object that is gone and cannot be converted: its metadata, as it was stored."""
        item = _item(event, "DELETED")
        resource = served.resource
        metadata = orjson.loads(item.value)["metadata"]
        obj = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": metadata}
        return await self._object(item, served, cluster, resource.renderer.dress(obj, item.mod_revision, cluster, wildcard=True))

    async def _shown(self, event: ObjectEvent, served: Served, cluster: Name) -> bytes:
        if self._selection.empty:
            selected_now, selected_before = event.value is not None, event.previous is not None
        else:
            selected_now = event.value is not None and self._matches(await self._decoded(event, served, cluster, now=True), served)
            selected_before = event.previous is not None and self._matches(await self._decoded(event, served, cluster, now=False), served)
        if selected_now:
            return await self._remembered(event, served, cluster, "MODIFIED" if selected_before else "ADDED")
        if selected_before:
            return await self._remembered(event, served, cluster, "DELETED")
        return b""

    def _matches(self, obj: dict[str, Any], served: Served) -> bool:
        return self._selection.matches(obj, served.resource)

    async def _served(self, event: ObjectEvent, cluster: Name) -> Served | None:
        served = self._target.served
        if not self.items.wildcard or not served.per_cluster:
            return served
        found = await self._backend.tables.served_in(cluster, served)
        if found is None and event.value is None:
            # The definition may be gone with its last objects: their end is still told, in the form of the others.
            return served
        return found

    async def _remembered(self, event: ObjectEvent, served: Served, cluster: Name, kind: str) -> bytes:
        if self._table and self._has_new_columns(served):
            return self._frame(kind, await self._object(_item(event, kind), served, cluster, None))
        key = (self._form, kind, served.resource, self.items.columns.names if self._table else ())
        frame = event.memo.get(key)
        if frame is None:
            obj = event.memo.get(self._object_key(served, now=kind != "DELETED"))
            frame = event.memo[key] = self._frame(kind, await self._object(_item(event, kind), served, cluster, obj))
        return frame

    def _has_new_columns(self, served: Served) -> bool:
        """Whether the columns have to be sent: with the first row, and with that of a definition that brings further ones."""
        columns = self.items.columns
        columns.of(served.resource)
        return columns.changed

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
                if obj is None or obj is UNCONVERTED:
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
        if not transform and not self._protobuf:
            body = rendered(served, item, cluster, wildcard=self.items.wildcard)
            if body is not None:
                return body
        if obj is None:
            obj = await self.items.shown(item, served, cluster)
        api_version = self._representation.api_version
        match transform:
            case "":
                return self._encoded(obj)
            case "Table":
                columns = self.items.columns.of(served.resource)
                row = table_row(obj, columns, self._backend.clock(), include_object=self._include, api_version=api_version)
                headers = column_definitions(self.items.columns.union) if self.items.columns.changed else None
                self.items.columns.changed = False
                metadata = {"resourceVersion": str(item.mod_revision)}
                document = {"kind": "Table", "apiVersion": api_version, "metadata": metadata}
                return orjson.dumps({**document, "columnDefinitions": headers, "rows": [row]})
            case _:
                return self._encoded(partial_object_metadata(obj, api_version))

    def _encoded(self, document: dict[str, Any]) -> bytes:
        if not self._protobuf:
            return orjson.dumps(document)
        try:
            return encode_object(document)
        except ProtobufError as error:
            raise errors.internal(str(error)) from error


def _item(event: ObjectEvent, kind: str) -> KeyValue:
    """The state that an event shows: the new one, or for DELETED the last one, at the revision of the change."""
    if kind != "DELETED":
        assert event.value is not None
        return KeyValue("", event.value, event.resource_version, event.create_revision)
    assert event.previous is not None
    return KeyValue(event.previous.key, event.previous.value, event.resource_version, event.create_revision)


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)
