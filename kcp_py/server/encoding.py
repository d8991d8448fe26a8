"""Decoded documents as bytes in the media type that was negotiated; lists from elements that were written one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.serializer.json.codec import encode_pretty
from kcp_py.apimachinery.serializer.protobuf import ProtobufError, encode_list, encode_object, item_encoder
from kcp_py.apimachinery.serializer.yaml.codec import encode_yaml
from kcp_py.server.negotiation import Representation


def encode(document: Mapping[str, Any], representation: Representation) -> bytes:
    """Encode a document with its apiVersion and kind. Compact JSON and YAML end with a line feed, indented JSON does not, as upstream's.

    Raises:
        StatusError: 500, a value that cannot be written in protobuf.
    """
    match representation.media:
        case "json":
            return encode_pretty(document) if representation.pretty else orjson.dumps(document) + b"\n"
        case "yaml":
            return encode_yaml(document)
        case _:
            try:
                return encode_object(document)
            except ProtobufError as error:
                raise errors.internal(str(error)) from error


async def encode_offloaded(document: Mapping[str, Any], representation: Representation) -> bytes:
    """Encode a document, in a thread if it is large.

    Raises:
        StatusError: as `encode`.
    """
    media = representation.media
    if (media != "json" or representation.pretty) and len(orjson.dumps(document)) > Inline.ENCODE[media]:
        return await offload(encode, document, representation)
    return encode(document, representation)


class ListEncoding:
    """Writes one list, element by element."""

    __slots__ = ("_api_version", "_encode_item", "_indent", "_key", "_kind", "_media")

    def __init__(self, representation: Representation, api_version: str, kind: str, item_kind: str) -> None:
        """Prepare.

        Args:
            representation: of the answer.
            api_version: of the list.
            kind: of the list.
            item_kind: of its items, in protobuf, where they have the version of the list.

        Raises:
            StatusError: 500, there is no such message.
        """
        self._media = representation.media
        self._indent = representation.pretty
        self._key = "rows" if representation.transform == "Table" else "items"
        self._api_version = api_version
        self._kind = kind
        if self._media == "protobuf":
            try:
                self._encode_item = item_encoder(api_version, item_kind)
            except ProtobufError as error:
                raise errors.internal(str(error)) from error

    def element(self, document: Mapping[str, Any]) -> bytes:
        """Encode an element.

        Raises:
            StatusError: 500, a value that cannot be written in protobuf.
        """
        match self._media:
            case "yaml":
                # Items of a list are in the column of its key.
                return encode_yaml([document])
            case "json":
                # Strings have no line feeds of their own in JSON.
                return encode_pretty(document).replace(b"\n", b"\n    ") if self._indent else orjson.dumps(document)
            case _:
                try:
                    return self._encode_item(document)
                except ProtobufError as error:
                    raise errors.internal(str(error)) from error

    async def element_offloaded(self, document: Mapping[str, Any], size: int) -> bytes:
        """`element`, in a thread where it would block the event loop.

        Args:
            document: the element.
            size: bytes of its JSON, roughly.

        Raises:
            StatusError: as `element`.
        """
        return await offload(self.element, document) if size > Inline.ENCODE[self._media] else self.element(document)

    def whole(self, head: Mapping[str, Any], elements: Sequence[bytes]) -> list[bytes]:
        """The list, in parts.

        Args:
            head: everything but the elements.
            elements: in their order.
        """
        match self._media:
            case "yaml":
                before = {name: value for name, value in head.items() if name < self._key}
                behind = {name: value for name, value in head.items() if name > self._key}
                key = self._key.encode() + (b":\n" if elements else b": []\n")
                return [encode_yaml(before) + key, *elements, encode_yaml(behind) if behind else b""]
            case "json" if not self._indent:
                return [orjson.dumps({**head, self._key: []})[:-2], b",".join(elements), b"]}\n"]
            case "json":
                start = encode_pretty(head)[:-2] + b',\n  "%s": [' % self._key.encode()
                if not elements:
                    return [start + b"]\n}"]
                return [start, b"\n    ", b",\n    ".join(elements), b"\n  ]\n}"]
            case _:
                return encode_list(self._api_version, self._kind, head["metadata"], elements)
