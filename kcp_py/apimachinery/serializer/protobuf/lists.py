"""Lists in protobuf, put together from items that were encoded one by one: large ones are not encoded at a stretch.

Every list of Kubernetes has its metadata in field 1 and its items in field 2 (`generated.proto`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcp_py.apimachinery.serializer.protobuf.encoding import encode
from kcp_py.apimachinery.serializer.protobuf.envelope import enclose
from kcp_py.apimachinery.serializer.protobuf.errors import ProtobufError
from kcp_py.apimachinery.serializer.protobuf.varints import length_of
from kcp_py.bootstrap.wire import META, message_of

ItemEncoder = Callable[[Mapping[str, Any]], bytes]
"""From an object's JSON to its place in a list."""


def item_encoder(api_version: str, kind: str) -> ItemEncoder:
    """What encodes the items of lists of a kind; it raises `ProtobufError` for a value that does not fit its field.

    Raises:
        ProtobufError: the kind has no message.
    """
    name = message_of().get((api_version, kind))
    if name is None:
        raise ProtobufError(f"{api_version}, Kind={kind} has no protobuf form")

    def encode_item(obj: Mapping[str, Any]) -> bytes:
        raw = encode(name, obj)
        return b"\x12" + length_of(raw) + raw

    return encode_item


def encode_list(api_version: str, kind: str, metadata: Mapping[str, Any], items: Sequence[bytes]) -> list[bytes]:
    """A list in its envelope, in parts.

    Args:
        api_version: of the list.
        kind: of the list.
        metadata: of the list.
        items: what an `ItemEncoder` made.
    """
    raw = encode(META + "ListMeta", metadata)
    return enclose(api_version, kind, [b"\x0a" + length_of(raw) + raw, *items])
