"""`decode_envelope`: what stands around every protobuf body.

Source: apimachinery `pkg/runtime/serializer/protobuf/protobuf.go` and `runtime.Unknown`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kcp_py.apimachinery.protobuf.decoding import decode_message
from kcp_py.apimachinery.protobuf.errors import ProtobufError
from kcp_py.apimachinery.protobuf.messages import compile_message

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
    """Take a body apart.

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
