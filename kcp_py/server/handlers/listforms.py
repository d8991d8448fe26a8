"""Forms of lists that follow from the JSON of each object alone: protobuf, and the metadata of objects in JSON and protobuf.

Tables have a form of their own (`tableforms`): their cells hold ages.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import reduce
from typing import Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Form
from kcp_py.server.encoding import ListEncoding
from kcp_py.server.handlers.collection import list_encoding
from kcp_py.server.negotiation import Representation

_DEPTH: Final = 12
"""Of the values in metadata that are cut out; deeper ones (managed fields) are decoded."""
_DECODED_BYTES: Final = 4 * 1024
"""An object up to this size is decoded and encoded faster than the expression finds its metadata."""
_BYTES_PER_LOOK: Final = 64 * 1024
"""Bytes of objects between two looks at the clock, a fraction of a millisecond."""


def _with_objects(inner: bytes) -> bytes:
    """What matches the inside of an object, from what matches that of the objects in it."""
    return rb'(?:[^{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{' + inner + rb"\})*+"


_INNERMOST: Final = rb'(?:[^{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
_METADATA: Final = re.compile(
    rb'\{(?:"apiVersion":"[^"\\]*+","kind":"[^"\\]*+",)?"metadata":(\{'
    + reduce(lambda inner, _: _with_objects(inner), range(_DEPTH), _INNERMOST)
    + rb"\})",
    re.DOTALL,
)


def form_of(resource: ServedResource, representation: Representation) -> Form | None:
    """The form of a list in a representation; None where it has no such form, or is plain JSON.

    Raises:
        StatusError: 500, there is no message for it in protobuf.
    """
    if representation.transform == "Table" or representation.media == "yaml" or representation.pretty:
        return None
    if representation.media == "protobuf":
        return _ProtobufForm(resource, representation)
    return _MetadataForm(representation.api_version) if representation.transform else None


class _MetadataForm:
    """The metadata of objects in JSON."""

    separator = b","

    def __init__(self, api_version: str) -> None:
        self.key: Hashable = ("metadata", api_version)
        self._api_version = api_version
        self._head = orjson.dumps({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": {}})[:-3]

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        head = self._head
        found: list[bytes] = []
        turns = TimeSlice()
        size = 0
        for document in documents:
            match = _METADATA.match(document) if len(document) > _DECODED_BYTES else None
            # A result of orjson keeps its whole buffer of at least 4 KiB: it is dropped at once.
            metadata = match[1] if match is not None else orjson.dumps(orjson.loads(document).get("metadata") or {})
            found.append(b"%b%b}" % (head, metadata))
            size += len(document)
            if size > _BYTES_PER_LOOK:
                size = 0
                await turns.yield_if_due()
        return found

    def shown(self, elements: bytes) -> bytes:
        return elements


class _ProtobufForm:
    """Objects, or their metadata, in protobuf."""

    separator = b""

    def __init__(self, resource: ServedResource, representation: Representation) -> None:
        self._encoding: ListEncoding = list_encoding(resource, representation)
        self._api_version = representation.api_version if representation.transform else ""
        self.key: Hashable = ("protobuf", resource.group_version, resource.kind, self._api_version)

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        found: list[bytes] = []
        turns = TimeSlice()
        for document in documents:
            obj = orjson.loads(document)
            if self._api_version:
                obj = partial_object_metadata(obj, self._api_version)
            found.append(await self._encoding.element_offloaded(obj, len(document)))
            await turns.yield_if_due()
        return found

    def shown(self, elements: bytes) -> bytes:
        return elements
