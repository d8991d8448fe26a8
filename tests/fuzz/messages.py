"""Protobuf bodies: envelopes, and messages of every kind, made of the tables."""

from __future__ import annotations

from random import Random

from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode, decode_envelope
from kcp_py.bootstrap.wire import META, message_fields, message_of
from tests.fuzz.documents import plain
from tests.fuzz.mutation import MAX_BYTES, framed, mutated_bytes, varint
from tests.fuzz.target import Target

MAGIC = b"k8s\0"
KINDS = sorted({*message_of().values(), META + "DeleteOptions"})
NUMBERS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
TEXTS = (b"", b"a", b"\0", b"\xff", b"\xed\xa0\x80", "é".encode(), b"x" * 300, b"1Gi", b"{}", b'{"f:a":{}}', b"[" * 300)


def targets() -> list[Target]:
    envelope = framed(1, framed(1, b"v1") + framed(2, b"ConfigMap"))
    seeds = [MAGIC + envelope + framed(2, raw) + framed(3, b"") + framed(4, b"application/json") for raw in (b"", framed(1, b"\n\1a"))]
    return [
        Target(name="protobuf-envelope", make=lambda random: mutated_bytes(random, seeds), run=_envelope, seeds=seeds),
        # The first two bytes choose the kind.
        Target(name="protobuf", make=_message_and_kind, run=_message, seeds=[kind.to_bytes(2) for kind in range(len(KINDS))]),
    ]


def _envelope(data: bytes) -> None:
    try:
        envelope = decode_envelope(data)
    except ProtobufError as error:
        assert str(error)
        return
    assert len(envelope.raw) <= len(data)
    envelope.kind.encode()


def _message(data: bytes) -> None:
    kind = KINDS[int.from_bytes(data[:2]) % len(KINDS)]
    try:
        value = decode(kind, data[2:])
    except ProtobufError as error:
        assert str(error)
        return
    plain(value)


def _message_and_kind(random: Random) -> bytes:
    kind = random.randrange(len(KINDS))
    data = written(random, KINDS[kind], 6)
    if random.randint(0, 2) == 0:
        data = mutated_bytes(random, [data])
    return kind.to_bytes(2) + data[:MAX_BYTES]


def enveloped(random: Random, api_version: str, kind: str) -> bytes:
    """An object in its envelope, with anything in it."""
    raw = written(random, message_of().get((api_version, kind), META + "DeleteOptions"), 5)
    return mutated_bytes(random, [MAGIC + framed(1, framed(1, api_version.encode()) + framed(2, kind.encode())) + framed(2, raw)])


def written(random: Random, message: str, levels: int) -> bytes:
    """A message of fields that it has, with values of their types, most of them, in any order and number."""
    try:
        fields = message_fields(message)
    except KeyError:
        # A message with JSON of its own.
        return framed(1, random.choice(TEXTS))
    out = bytearray()
    numbers = list(fields)
    for _ in range(random.randint(0, 5) if levels else 0):
        number = int(random.choice(numbers)) if numbers and random.randint(0, 9) else random.choice((0, 1, 15, 16, 2**29 - 1))
        kind = fields[str(number)][1] if str(number) in fields else "bytes"
        for _ in range(random.choice((1, 1, 1, 2, 40)) if len(out) < 500 else 1):
            if len(out) > MAX_BYTES:
                break
            out += _field(random, number, kind, levels)
    return bytes(out)


def _field(random: Random, number: int, kind: str, levels: int) -> bytes:
    if kind.startswith("{}"):
        key = framed(1, random.choice(TEXTS))
        value = _field(random, 2, kind[2:], levels)
        return framed(number, random.choice((key + value, key, value, value + key, b"")))
    kind = kind.removeprefix("[]")
    if random.randint(0, 19) == 0:
        kind = random.choice(("int32", "double", "bytes", "group"))
    match kind:
        case "bool" | "int32" | "int64":
            return varint(number << 3) + varint(random.choice(NUMBERS))
        case "double":
            return varint(number << 3 | 1) + random.choice(NUMBERS).to_bytes(8)
        case "group":
            return varint(number << 3 | random.choice((3, 4, 5, 6, 7))) + bytes(4)
        case "string" | "bytes" | "raw":
            return framed(number, random.choice(TEXTS))
        case _:
            return framed(number, written(random, kind, levels - 1))
