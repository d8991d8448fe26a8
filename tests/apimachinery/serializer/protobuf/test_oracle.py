"""The codec against protobuf's own implementation, and against bytes that are nearly messages."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode, encode
from kcp_py.bootstrap.wire import message_of
from tests.apimachinery.serializer.protobuf.oracle import fill, message_class, without_zeros

KINDS = [
    ("v1", "Pod"),
    ("v1", "Node"),
    ("v1", "ServiceList"),
    ("v1", "PersistentVolume"),
    ("v1", "APIResourceList"),
    ("apps/v1", "StatefulSet"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("coordination.k8s.io/v1", "Lease"),
    ("networking.k8s.io/v1", "Ingress"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
]
SEEDS = st.integers(0, 2**32)
GROWTH = 64
"""JSON bytes for each byte of a message, beyond what a small one may have."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
@settings(max_examples=25)
@given(SEEDS, st.sampled_from([1, 3]))
def test_agrees_with_protobuf(kind: tuple[str, str], seed: int, entries: int) -> None:
    """Messages of protobuf are read; the bytes written for them equal those of protobuf."""
    name = message_of()[kind]
    message = message_class(name)()
    fill(message, name, Random(seed), entries=entries)
    decoded = decode(name, message.SerializeToString())
    assert json.loads(json.dumps(decoded, allow_nan=False)) == decoded
    written = encode(name, decoded)
    again = message_class(name)()
    again.ParseFromString(written)
    assert without_zeros(again) == without_zeros(message)
    # Of maps it has an order of its own.
    assert again.SerializeToString() == written or entries > 1
    assert decode(name, written) == decoded


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
@settings(max_examples=25)
@given(SEEDS, st.integers(1, 8))
def test_mutated_messages_raise_only_the_declared_error(kind: tuple[str, str], seed: int, changes: int) -> None:
    """Bytes changed, removed, repeated and cut end in JSON of bounded size that is written again, or in a ProtobufError."""
    name, random = message_of()[kind], Random(seed)
    message = message_class(name)()
    fill(message, name, random)
    raw = bytearray(message.SerializeToString())
    for _ in range(changes):
        at = random.randrange(len(raw) + 1)
        match random.randrange(4):
            case 0 if at < len(raw):
                raw[at] = random.randrange(256)
            case 1:
                del raw[at : at + random.randrange(20)]
            case 2:
                raw[at:at] = raw[at : at + random.randrange(200)]
            case _:
                raw[at:at] = random.choice((b"\xff" * 10, b"\x0a\x00", b"\x80", b"\x7b", b"\x12\x80\x80\x80\x80\x08"))
    try:
        decoded = decode(name, bytes(raw))
        assert len(json.dumps(decoded, allow_nan=False)) < 1024 * 1024 + GROWTH * len(raw)
        encode(name, decoded)
    except ProtobufError:
        return
