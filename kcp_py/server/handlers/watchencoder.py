"""`WatchEncoder`: the events of a watch as its client gets them, lines of JSON or protobuf with lengths."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import IncludeObject, column_definitions, table_row
from kcp_py.apimachinery.serializer.protobuf import ProtobufError, encode_object, encode_watch_event
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.watching import DELETED, StoredWatch, item_of
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.directwriting import chunk
from kcp_py.server.handlers.answer import rendered
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.itemencoder import ItemEncoder
from kcp_py.server.negotiation import Representation
from kcp_py.storage.contract import KeyValue
from kcp_py.watchcache import ObjectEvent

_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class SharedForm:
    """What watches have in common that show the same frame of each event. It is compared by identity."""

    __slots__ = ("__weakref__",)


class SharedFrame(NamedTuple):
    """A frame that many watches send."""

    chunk: bytes
    """The frame as a chunk of HTTP; empty where the event is not shown."""
    size: int
    """Of the frame, in bytes."""

    @property
    def frame(self) -> bytes:
        """Without the framing of HTTP."""
        return self.chunk[-2 - self.size : -2] if self.size else b""


_FORMS: Final[WeakValueDictionary[Hashable, SharedForm]] = WeakValueDictionary()
"""Those that encoders hold."""


class WatchEncoder:
    """Makes the frames of one watch. A frame is made once per event and form, and shared by all who watch in that form."""

    __slots__ = (
        "_backend",
        "_form",
        "_frame",
        "_include",
        "_protobuf",
        "_representation",
        "_table",
        "_target",
        "_watch",
        "items",
        "shared",
    )

    def __init__(
        self,
        backend: Backend,
        target: Resolved,
        representation: Representation,
        include: IncludeObject,
        *,
        watch: StoredWatch | None = None,
    ) -> None:
        """Prepare.

        Args:
            backend: for the time, and for the CRDs of all clusters.
            target: the watched collection.
            representation: of the objects.
            include: what rows of a Table hold of their objects.
            watch: a started watch of stored objects; None for computed ones.
        """
        self._backend = backend
        self._target = target
        self._representation = representation
        self._include: IncludeObject = include
        self._watch = watch
        self.items = ItemEncoder(backend, target, representation, include, items=watch.items if watch is not None else None)
        if watch is not None:
            watch.as_stored = self.items.is_answered_as_stored
        resource = target.resource
        self._protobuf = representation.media == "protobuf"
        # The kinds of frames are few, and watches are many: what they share is not held by each.
        self._frame = encode_watch_event if self._protobuf else _line
        self._form = (representation, resource.group_version, include, self.items.wildcard)
        self._table = representation.transform == "Table"
        self.shared: Final[SharedForm | None] = self._shared_form(watch) if watch is not None else None
        """The key of the memo of an event for its `SharedFrame`; None where frames depend on more than the form."""

    def _shared_form(self, watch: StoredWatch) -> SharedForm | None:
        # Columns are sent with the first row of each watch.
        if self._table or watch.may_convert or watch.horizon is not None or not watch.selection.empty:
            return None
        key = (self._form, watch.target.resource, watch.stored_only)
        form = _FORMS.get(key)
        if form is None:
            form = _FORMS[key] = SharedForm()
        return form

    async def encode(self, events: Sequence[ObjectEvent]) -> list[bytes]:
        """The frames of several events; empty where the selection leaves nothing.

        Raises:
            StatusError: an object cannot be brought to the version that is watched.
        """
        watch = self._watch
        assert watch is not None, "computed objects have no events in the store"
        if watch.may_convert:
            await watch.convert(events)
        if len(events) == 1:
            frame = await self._of(watch, events[0])
            return [frame] if frame else []
        frames: list[bytes] = []
        turns = TimeSlice()
        for event in events:
            if frame := await self._of(watch, event):
                frames.append(frame)
            await turns.yield_if_due()
        return frames

    async def initial(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None) -> bytes:
        """A synthetic ADDED event; empty for an object of one of all clusters that cannot be shown."""
        try:
            return self._frame("ADDED", await self._object(item, served, cluster, obj))
        except StatusError:
            if not self.items.wildcard:
                raise
            return b""

    def of_object(self, kind: str, obj: dict[str, Any]) -> bytes:
        """An event about an object that no store holds, as it is to be shown but for the representation."""
        return self._frame(kind, self._represented(obj, self._target.resource, 0))

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

    async def _of(self, watch: StoredWatch, event: ObjectEvent) -> bytes:
        form = self.shared
        if form is None:
            return await self._encode(watch, event)
        found: SharedFrame | None = event.memo.get(form)
        if found is not None:
            return found.frame
        frame = await self._encode(watch, event)
        event.memo[form] = SharedFrame(chunk(frame) if frame else b"", len(frame))
        return frame

    async def _encode(self, watch: StoredWatch, event: ObjectEvent) -> bytes:
        cluster = Name(event.route.cluster)
        served = await watch.served_in(event, cluster)
        if served is None:
            return b""
        try:
            kind = await watch.kind_of(event, served, cluster)
            return await self._remembered(watch, event, served, cluster, kind=kind) if kind else b""
        except StatusError:
            if not self.items.wildcard:
                raise
            if event.value is not None:
                # No cluster ends the watch of all clusters: an object that it does not convert is left out, except for its end.
                return b""
            last = watch.last_metadata(event, served, cluster)
            return self._frame(DELETED, await self._object(item_of(event, DELETED), served, cluster, last))

    async def _remembered(self, watch: StoredWatch, event: ObjectEvent, served: Served, cluster: Name, *, kind: str) -> bytes:
        if self._table and self._has_new_columns(served):
            return self._frame(kind, await self._object(item_of(event, kind), served, cluster, None))
        if self.shared is not None:
            # `_of` remembers it.
            obj = event.memo.get(watch.object_key(served, now=kind != DELETED))
            return self._frame(kind, await self._object(item_of(event, kind), served, cluster, obj))
        key = (self._form, kind, served.resource, self.items.columns.names if self._table else ())
        frame: bytes | None = event.memo.get(key)
        if frame is None:
            obj = event.memo.get(watch.object_key(served, now=kind != DELETED))
            frame = event.memo[key] = self._frame(kind, await self._object(item_of(event, kind), served, cluster, obj))
        return frame

    def _has_new_columns(self, served: Served) -> bool:
        """Whether the columns have to be sent: with the first row, and with that of a CRD that brings further ones."""
        columns = self.items.columns
        columns.of(served.resource)
        return columns.changed

    async def _object(self, item: KeyValue, served: Served, cluster: Name, obj: dict[str, Any] | None) -> bytes:
        transform = self._representation.transform
        if not transform and not self._protobuf:
            body = rendered(served, item, cluster, wildcard=self.items.wildcard)
            if body is not None:
                return body
        if obj is None:
            obj = await self.items.shown(item, served, cluster)
        return self._represented(obj, served.resource, item.mod_revision)

    def _represented(self, obj: dict[str, Any], resource: ServedResource, revision: int) -> bytes:
        api_version = self._representation.api_version
        match self._representation.transform:
            case "":
                return self._encoded(obj)
            case "Table":
                columns = self.items.columns.of(resource)
                row = table_row(obj, columns, self._backend.clock(), include_object=self._include, api_version=api_version)
                headers = column_definitions(self.items.columns.union) if self.items.columns.changed else None
                self.items.columns.changed = False
                document = {"kind": "Table", "apiVersion": api_version, "metadata": {"resourceVersion": str(revision)}}
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


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)
