"""What stands around every protobuf body, `runtime.Unknown`, and around the events of a watch.

Source: apimachinery `pkg/runtime/serializer/protobuf/protobuf.go` and `runtime.Unknown`, `pkg/util/framer`; a watch's
events are written by the serializer that writes no envelope (`serializer/codec_factory.go`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.serializer.protobuf.decoding import decode_message
from kcp_py.apimachinery.serializer.protobuf.encoding import encode
from kcp_py.apimachinery.serializer.protobuf.errors import ProtobufError
from kcp_py.apimachinery.serializer.protobuf.messages import compile_message
from kcp_py.apimachinery.serializer.protobuf.varints import length_of, varint
from kcp_py.bootstrap.wire import message_of

PREFIX: Final = b"k8s\0"

_TYPE_META: Final = compile_message("runtime.TypeMeta", {"1": ("apiVersion", "string", ""), "2": ("kind", "string", "")})
_UNKNOWN: Final = compile_message(
    "runtime.Unknown",
    {
        "1": ("typeMeta", "runtime.TypeMeta", ""),
        "2": ("raw", "raw", "pointer"),
        "3": ("contentEncoding", "string", ""),
        "4": ("contentType", "string", ""),
    },
    {"runtime.TypeMeta": _TYPE_META},
)


class Envelope(NamedTuple):
    """The content of an envelope; all but the message may be empty."""

    api_version: str
    kind: str
    raw: bytes
    """The message itself."""
    content_type: str


def decode_envelope(body: bytes) -> Envelope:
    """Split a body.

    Raises:
        ProtobufError: no envelope.
    """
    if not body:
        raise ProtobufError("empty data")
    if not body.startswith(PREFIX):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(body) == len(PREFIX):
        raise ProtobufError("empty body")
    unknown = decode_message(_UNKNOWN, body[len(PREFIX) :])
    types = unknown["typeMeta"]
    return Envelope(types["apiVersion"], types["kind"], unknown.get("raw", b""), unknown["contentType"])


def has_message(api_version: str, kind: str) -> bool:
    """Whether a kind has a protobuf form: built-in ones have, and lists, options and Status; custom resources and Table have not."""
    return (api_version, kind) in message_of()


def encode_object(obj: Mapping[str, Any]) -> bytes:
    """Encode an object in its envelope, as a body is.

    Args:
        obj: its JSON, with `apiVersion` and `kind`.

    Raises:
        ProtobufError: a value that does not fit its field, or a kind that has no message.
    """
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or (name := message_of().get((api_version, kind))) is None:
        raise ProtobufError(f"{api_version}, Kind={kind} has no protobuf form")
    raw = encode(name, obj)
    return _head(api_version, kind) + length_of(raw) + raw + _TAIL


def enclose(api_version: str, kind: str, parts: Sequence[bytes]) -> list[bytes]:
    """Put a message that is there in parts into its envelope.

    Args:
        api_version: of a built-in kind, or empty, as in some documents of discovery.
        kind: of the object.
        parts: of the message.
    """
    size = varint(sum(map(len, parts)))
    return [_head(api_version, kind) + size, *parts, _TAIL]


def encode_watch_event(event_type: str, enveloped_object: bytes) -> bytes:
    """Encode one event of a watch: a length of four bytes, then a WatchEvent that has no envelope of its own.

    Args:
        event_type: such as `ADDED`.
        enveloped_object: what `encode_object` made of the object.
    """
    kind = event_type.encode()
    extension = b"\x0a" + length_of(enveloped_object) + enveloped_object
    event = b"\x0a" + length_of(kind) + kind + b"\x12" + length_of(extension) + extension
    return len(event).to_bytes(4, "big") + event


_TAIL: Final = b"\x1a\x00\x22\x00"
"""Neither content encoding nor content type."""


@cache
def _head(api_version: str, kind: str) -> bytes:
    version, name = api_version.encode(), kind.encode()
    types = b"\x0a" + length_of(version) + version + b"\x12" + length_of(name) + name
    return PREFIX + b"\x0a" + length_of(types) + types + b"\x12"
