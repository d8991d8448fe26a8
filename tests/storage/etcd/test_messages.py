"""The messages."""

from __future__ import annotations

from google.protobuf import descriptor_pool

from kcp_py.storage.etcd import messages


def test_wire_form():
    """Field numbers and types are etcd's: a request and an answer in their known bytes."""
    request = messages.RangeRequest(key=b"/a", range_end=b"/b", limit=5, revision=7, keys_only=True)
    assert request.SerializeToString() == b"\x0a\x02/a\x12\x02/b\x18\x05\x20\x07\x40\x01"
    data = b"\x0a\x02\x18\x09\x12\x0b\x0a\x02/a\x10\x03\x18\x04\x2a\x01v\x18\x01\x20\x02"
    answer = messages.message_class("RangeResponse").FromString(data)
    assert (answer.header.revision, answer.more, answer.count) == (9, True, 2)
    (kv,) = answer.kvs
    assert (kv.key, kv.create_revision, kv.mod_revision, kv.value) == (b"/a", 3, 4, b"v")


def test_default_pool_is_left_alone():
    """Another etcd library in the process finds its names free."""
    pool = descriptor_pool.Default()
    assert not _knows(pool, "etcd.KeyValue")
    assert not _knows(pool, "mvccpb.KeyValue")


def _knows(pool: descriptor_pool.DescriptorPool, name: str) -> bool:
    try:
        pool.FindMessageTypeByName(name)
    except KeyError:
        return False
    return True
