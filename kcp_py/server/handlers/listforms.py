"""Forms of lists that follow from the JSON of each object alone: protobuf, and the metadata of objects in JSON and protobuf.

Tables have a form of their own (`tableforms`): their cells hold ages.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.offload import Inline
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.serializer.json.selected import Raw, decoder
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Form
from kcp_py.server.encoding import ListEncoding
from kcp_py.server.handlers.collection import list_encoding
from kcp_py.server.negotiation import Representation

_BYTES_PER_LOOK: Final = 64 * 1024
"""Bytes of objects between two looks at the clock, a fraction of a millisecond."""


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
        self._head = orjson.dumps({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": {}})[:-3]

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        head = self._head
        found: list[bytes] = []
        turns = TimeSlice()
        size = 0
        for document in documents:
            found.append(b"".join((head, _metadata_of(document), b"}")))
            size += len(document)
            if size > _BYTES_PER_LOOK:
                size = 0
                await turns.yield_if_due()
        return found

    def shown(self, elements: bytes) -> bytes:
        return elements


_decode: Final = decoder(frozenset(), raw="metadata")
_BEGINNING: Final = b"{"[0]


def _metadata_of(document: bytes) -> Raw | bytes:
    """The metadata of any object."""
    try:
        metadata: Raw = _decode(document)["metadata"]
        if memoryview(metadata)[0] == _BEGINNING:
            return metadata
    except (LookupError, RecursionError, ValueError):
        pass
    # A result of orjson keeps its whole buffer of at least 4 KiB: it is dropped at once.
    return orjson.dumps(orjson.loads(document).get("metadata") or {})


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
        size = 0
        for document in documents:
            obj = self._decoded(document)
            if len(document) > Inline.ENCODE["protobuf"]:
                found.append(await self._encoding.element_offloaded(obj, len(document)))
            else:
                found.append(self._encoding.element(obj))
            size += len(document)
            if size > _BYTES_PER_LOOK:
                size = 0
                await turns.yield_if_due()
        return found

    def _decoded(self, document: bytes) -> dict[str, Any]:
        if not self._api_version:
            decoded: dict[str, Any] = orjson.loads(document)
            return decoded
        return partial_object_metadata({"metadata": orjson.loads(memoryview(_metadata_of(document)))}, self._api_version)

    def shown(self, elements: bytes) -> bytes:
        return elements
