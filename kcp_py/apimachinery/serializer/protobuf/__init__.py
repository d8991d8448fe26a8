"""The protobuf form of built-in kinds: envelopes and messages to the dicts that their JSON form decodes to, and back.

Belongs here: the codec, driven by the tables of `kcp_py.bootstrap.wire`. Does not belong here: which kinds are served, media types,
Status errors.

Source: apimachinery `pkg/runtime/serializer/protobuf`, the `generated.proto` files of k8s.io/api and their struct tags.
"""

from kcp_py.apimachinery.serializer.protobuf.decoding import decode
from kcp_py.apimachinery.serializer.protobuf.encoding import encode
from kcp_py.apimachinery.serializer.protobuf.envelope import (
    Envelope,
    decode_envelope,
    enclose,
    encode_object,
    encode_watch_event,
    has_message,
)
from kcp_py.apimachinery.serializer.protobuf.errors import ProtobufError
from kcp_py.apimachinery.serializer.protobuf.lists import encode_list, item_encoder

__all__ = [
    "Envelope",
    "ProtobufError",
    "decode",
    "decode_envelope",
    "enclose",
    "encode",
    "encode_list",
    "encode_object",
    "encode_watch_event",
    "has_message",
    "item_encoder",
]
