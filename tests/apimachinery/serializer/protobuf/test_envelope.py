"""What stands around messages: envelopes of objects, frames of events."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode, decode_envelope, encode_object, encode_watch_event, has_message
from kcp_py.bootstrap.wire import META, message_of

OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v" * 300}}


def test_objects_come_back_from_their_envelope() -> None:
    """The envelope carries what the message does not: API version and kind."""
    envelope = decode_envelope(encode_object(OBJECT))
    assert (envelope.api_version, envelope.kind, envelope.content_type) == ("v1", "ConfigMap", "")
    read = decode(message_of()["v1", "ConfigMap"], envelope.raw)
    assert read == {"metadata": {"name": "a"}, "data": OBJECT["data"]}


def test_lists_are_objects() -> None:
    """The items of a list are written without their API version and kind."""
    body = encode_object({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": [OBJECT, OBJECT]})
    read = decode(message_of()["v1", "ConfigMapList"], decode_envelope(body).raw)
    assert read["metadata"] == {"resourceVersion": "7"}
    assert [item["metadata"]["name"] for item in read["items"]] == ["a", "a"]


def test_which_kinds_have_a_message() -> None:
    """Built-in kinds, their lists, options and metadata alone have one; tables and custom resources have none."""
    assert has_message("v1", "ConfigMap")
    assert has_message("v1", "ConfigMapList")
    assert has_message("v1", "Status")
    assert has_message("meta.k8s.io/v1", "PartialObjectMetadataList")
    assert not has_message("meta.k8s.io/v1", "Table")
    assert not has_message("example.com/v1", "ConfigMap")


@pytest.mark.parametrize("obj", [{}, {"apiVersion": "example.com/v1", "kind": "Foo"}, {"apiVersion": ["v1"], "kind": {}}])
def test_other_kinds_are_refused(obj: dict[str, object]) -> None:
    """An object of a kind without a protobuf form is not a message."""
    with pytest.raises(ProtobufError, match="no protobuf form"):
        encode_object(obj)


def test_events_are_framed() -> None:
    """A length of four bytes, and then a WatchEvent without an envelope, in which the object has one."""
    body = encode_object(OBJECT)
    frame = encode_watch_event("MODIFIED", body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:].startswith(b"\x0a\x08MODIFIED\x12")
    assert frame.endswith(b"\x0a" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body)
    assert decode(META + "WatchEvent", encode_watch_event("ADDED", b"{}")[4:]) == {"type": "ADDED", "object": {}}
