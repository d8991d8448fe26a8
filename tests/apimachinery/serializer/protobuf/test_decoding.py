"""Protobuf bodies: what Go writes of definitions, hostile bytes, and protobuf's own implementation as the oracle."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH
from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode, decode_envelope
from kcp_py.bootstrap.wire import META, message_fields, message_of

DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
ENVELOPE = base64.b64decode(
    "azhzAAozChdhcGlleHRlbnNpb25zLms4cy5pby92MRIYQ3VzdG9tUmVzb3VyY2VEZWZpbml0aW9uEroFCiMKE3dpZGdldHMuZXhhbXBsZS5jb20SABoAIgAq"
    "ADIAOABCABKEBQoLZXhhbXBsZS5jb20aFQoHd2lkZ2V0cxIAIgZXaWRnZXQqACIKTmFtZXNwYWNlZDrPBAoCdjEQARgBIr4ECrsECgASABoDIy94IgAqBm9i"
    "amVjdDIAOgBQAGAAegCQAQC6AQRzcGVj6gFdCgFhElgKABIAIgAqBWFycmF5MgA6AFAAYAB6AJABAMIBKAomCgASACIAKgZzdHJpbmcyADoAUABgAGgFegCQ"
    "AQCoAgC4AgDAAgCoAgC4AgDAAgDKAgFr0gIDbWFw6gFsCgFiEmcKABIAIgAqBm9iamVjdDIAOgBQAGAAegCQAQDyAUAIARI8CgASACIAKgdpbnRlZ2VyMgA6"
    "AEIDCgEzSQAAAAAAAPg/UABZAAAAAAAAAABgAHoAkAEAqAIAuAIAwAIAqAIAuAIAwAIA6gFNCgFjEkgKABIAIgAqADIAOgBQAGAAegCQAQCiAQUKAyJ4IqIB"
    "AwoBMaIBAKIBDgoMeyJ5IjpbdHJ1ZV198gECCACoAgCwAgC4AgDAAgDqAWQKAWQSXwoAEgAiACoAMgA6AFAAYAB6AJABAPIBAggBggILCgFwEgYSAXESAXKC"
    "AisKAXMSJgokCgASACIAKgZzdHJpbmcyADoAUABgAHoAkAEAqAIAuAIAwAIAqAIAuAIAwAIA6gGBAQoBZRJ8CgASACIAKgAyADoAUABgAHoAkAEAwgFGEiQK"
    "ABIAIgAqBnN0cmluZzIAOgBQAGAAegCQAQCoAgC4AgDAAgASHgoAEgAiACoAMgA6AFAAYAB6AJABAKgCALgCAMACAKgCALgCAMACAeICEgoJc2VsZiA+IC0x"
    "EgFtGgAqAKgCALgCAMACACoCCgA4AFAAGgwSCAoAEgAiACoAIAAaACIA"
)
"""Written by apimachinery's serializer (v0.37.2) of the object below."""
SCHEMA: dict[str, Any] = {
    "$ref": "#/x",
    "type": "object",
    "required": ["spec"],
    "properties": {
        "a": {
            "type": "array",
            "items": {"type": "string", "maxLength": 5},
            "x-kubernetes-list-map-keys": ["k"],
            "x-kubernetes-list-type": "map",
        },
        "b": {"type": "object", "additionalProperties": {"type": "integer", "default": 3, "maximum": 1.5, "minimum": 0}},
        "c": {"enum": ["x", 1, None, {"y": [True]}], "additionalProperties": False, "x-kubernetes-preserve-unknown-fields": False},
        "d": {"additionalProperties": True, "dependencies": {"p": ["q", "r"], "s": {"type": "string"}}},
        "e": {
            "items": [{"type": "string"}, {}],
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [{"rule": "self > -1", "message": "m"}],
        },
    },
}


def framed(number: int, content: bytes) -> bytes:
    """A field with a length before it."""
    length, encoded = len(content), b""
    while length > 127:
        encoded += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + encoded + bytes([length]) + content


def test_definitions_decode_to_their_json() -> None:
    """A JSON boolean, list or schema, and JSON within JSON, is decoded to the text that Go prints."""
    envelope = decode_envelope(ENVELOPE)
    assert (envelope.api_version, envelope.kind) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    decoded = decode(DEFINITION, envelope.raw)
    assert decoded["spec"]["versions"][0]["schema"] == {"openAPIV3Schema": SCHEMA}
    assert decoded["metadata"] == {"name": "widgets.example.com"}


def test_every_prefix_of_a_body_is_refused_or_read() -> None:
    """A body that ends early raises the declared error and nothing else."""
    raw = decode_envelope(ENVELOPE).raw
    for end in range(len(raw)):
        for cut, read in ((raw[:end], partial(decode, DEFINITION)), (ENVELOPE[:end], decode_envelope)):
            try:
                read(cut)
            except ProtobufError:
                continue


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bodies_raise_only_the_declared_error(changes: list[tuple[int, int]]) -> None:
    """Whatever bytes are changed, the result is printable JSON or a ProtobufError."""
    raw = bytearray(decode_envelope(ENVELOPE).raw)
    for position, byte in changes:
        raw[position % len(raw)] = byte
    try:
        decoded = decode(DEFINITION, bytes(raw))
    except ProtobufError:
        return
    json.dumps(decoded, allow_nan=False)


@given(st.binary(max_size=200), st.sampled_from(sorted(message_of().values())))
def test_random_bytes_raise_only_the_declared_error(raw: bytes, message: str) -> None:
    """Bytes that were never a message do no harm."""
    try:
        json.dumps(decode(message, raw), allow_nan=False)
    except ProtobufError:
        return


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x12\x05", "unexpected EOF"),
        (b"k8s\0\x12" + b"\xff" * 12, "proto: integer overflow"),
        (b"k8s\0\x12" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"k8s\0\x10\x01", "proto: wrong wireType = 0 for field Raw"),
        (b"k8s\0\x14", "proto: Unknown: wiretype end group for non-group"),
        (b"k8s\0\x0a\x03\x0a\x01\xff", "string field contains invalid UTF-8"),
    ],
)
def test_broken_envelopes(body: bytes, problem: str) -> None:
    """The error says what Go's decoders say."""
    with pytest.raises(ProtobufError) as raised:
        decode_envelope(body)
    assert str(raised.value) == problem


def test_nesting_is_bounded() -> None:
    """A schema within a schema, and so on, is refused long before the stack ends."""
    schemas = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    number = next(int(number) for number, row in message_fields(schemas).items() if row[0] == "not")
    raw = b""
    for _ in range(MAX_DEPTH - 2):
        raw = _tagged(number, raw)
    decode(schemas, raw)
    for _ in range(3):
        raw = _tagged(number, raw)
    with pytest.raises(ProtobufError, match="exceeded max depth"):
        decode(schemas, raw)


def _tagged(number: int, content: bytes) -> bytes:
    tag = number << 3 | 2
    first = bytes([tag & 127 | 128, tag >> 7]) if tag > 127 else bytes([tag])
    return first + framed(1, content)[1:]


def test_empty_messages_do_not_grow_without_bound() -> None:
    """Two bytes for an element whose JSON has many required fields are not accepted by the million."""
    message = message_of()["rbac.authorization.k8s.io/v1", "RoleBinding"]
    few = decode(message, framed(2, b"") * 10)
    assert few["subjects"] == [{"kind": "", "name": ""}] * 10
    with pytest.raises(ProtobufError, match="too many empty messages"):
        decode(message, framed(2, b"") * 200_000)


def test_unknown_fields_are_skipped_and_repeated_ones_merged() -> None:
    """As Go's decoders do; the last of repeated single values wins."""
    metadata = framed(1, framed(1, b"a")) + framed(1, framed(1, b"b") + framed(3, b"n"))
    unknown = b"\x78\x05" + b"\x79" + bytes(8) + framed(15, b"x") + b"\x7d" + bytes(4) + b"\x7b\x08\x01\x7c"
    assert decode(message_of()["v1", "ConfigMap"], unknown + metadata) == {"metadata": {"name": "b", "namespace": "n"}}


def test_quantities_are_read_as_such() -> None:
    """They become canonical, and texts that are not quantities are refused, as in JSON."""
    limits = message_of()["v1", "LimitRange"]

    def sent(text: bytes) -> bytes:
        return framed(2, framed(1, framed(2, framed(1, b"cpu") + framed(2, framed(1, text)))))

    assert decode(limits, sent(b"1000m"))["spec"]["limits"] == [{"type": "", "max": {"cpu": "1"}}]
    for text in (b"", b"1Q", b" 1"):
        with pytest.raises(ProtobufError, match="quantities must match"):
            decode(limits, sent(text))


def test_entries_of_maps_are_known_by_their_numbers() -> None:
    """Go does not look at the wire types within an entry, nor at the order, and lacking halves are empty."""
    config_map = message_of()["v1", "ConfigMap"]
    for entry, wanted in (
        (framed(2, b"v") + framed(1, b"k"), {"k": "v"}),
        (b"\x08\x01k" + b"\x10\x01v", {"k": "v"}),
        (framed(1, b"k") + framed(3, b"x") + framed(2, b"v"), {"k": "v"}),
        (framed(1, b"a") + framed(1, b"k") + framed(2, b"v"), {"k": "v"}),
        (framed(1, b"k"), {"k": ""}),
        (b"", {"": ""}),
        (framed(1, b"k" * 130) + framed(2, b"v" * 300), {"k" * 130: "v" * 300}),
        (framed(1, b"k") + framed(2, b"v" * 130), {"k": "v" * 130}),
    ):
        assert decode(config_map, framed(2, entry))["data"] == wanted


def test_times() -> None:
    """Whole seconds for Time, six digits for MicroTime, and null for none."""
    lease = message_of()["coordination.k8s.io/v1", "Lease"]
    renew = next(int(number) for number, row in message_fields(lease + "Spec").items() if row[0] == "renewTime")
    second = b"\x08\x80\x92\xb8\xc3\x06"
    spec = framed(renew, second + b"\x10\xe8\x07")
    assert decode(lease, framed(2, spec))["spec"] == {"renewTime": "2025-07-09T06:15:28.000001Z"}
    assert decode(lease, framed(2, framed(renew, b"")))["spec"] == {"renewTime": None}
    deletion = framed(1, framed(9, second + b"\x10\x01"))
    assert decode(lease, deletion)["metadata"] == {"deletionTimestamp": "2025-07-09T06:15:28Z"}
    with pytest.raises(ProtobufError, match="year outside of range"):
        decode(lease, framed(1, framed(9, b"\x08" + b"\xff" * 8 + b"\x7f")))


def _oracle() -> Mapping[str, Any]:
    """Classes of protobuf's own implementation for ConfigMap, Secret and their metadata, made of the tables."""
    kinds = {"string": 9, "bytes": 12, "bool": 8, "int32": 5, "int64": 3}
    file = descriptor_pb2.FileDescriptorProto(name="tables.proto", package="t", syntax="proto2")
    for name in ("io.k8s.api.core.v1.ConfigMap", "io.k8s.api.core.v1.Secret", META + "ObjectMeta", META + "OwnerReference"):
        message = file.message_type.add(name=name.rpartition(".")[2])
        for number, (field, kind, _) in message_fields(name).items():
            element = kind.removeprefix("[]").removeprefix("{}")
            short = element.rpartition(".")[2]
            if element not in kinds and short not in {"ObjectMeta", "OwnerReference"}:
                continue
            made = message.field.add(name=field, number=int(number), label=1 if element == kind else 3)
            if kind.startswith("{}"):
                entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=9)
                entry.field.add(name="value", number=2, label=1, type=kinds[element])
                made.type, made.type_name = 11, f".t.{message.name}.{entry.name}"
            elif element in kinds:
                made.type = kinds[element]
            else:
                made.type, made.type_name = 11, f".t.{short}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in ("ConfigMap", "Secret")}


CLASSES = _oracle()
TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
WORDS = st.dictionaries(TEXT, TEXT, max_size=5)
BYTES = st.dictionaries(TEXT, st.binary(max_size=300), max_size=5)


@given(TEXT, st.integers(-(2**63), 2**63 - 1), WORDS, st.lists(TEXT, max_size=4), WORDS, BYTES, st.none() | st.booleans())
def test_reads_what_protobuf_itself_writes(  # noqa: PLR0917  # hypothesis passes positions
    name: str,
    generation: int,
    labels: dict[str, str],
    finalizers: list[str],
    data: dict[str, str],
    binary: dict[str, bytes],
    controller: bool | None,  # noqa: FBT001
) -> None:
    """Another encoder's messages, of any content, come out as they went in."""
    message = CLASSES["ConfigMap"](data=data, binaryData=binary)
    message.metadata.name = name
    message.metadata.generation = generation
    message.metadata.labels.update(labels)
    message.metadata.finalizers.extend(finalizers)
    owner = message.metadata.ownerReferences.add(uid=name)
    if controller is not None:
        owner.controller = controller
    reference = {"apiVersion": "", "kind": "", "name": "", "uid": name} | ({} if controller is None else {"controller": controller})
    metadata = {"name": name, "generation": generation, "labels": labels, "finalizers": finalizers}
    wanted = {
        "data": data,
        "binaryData": {key: base64.b64encode(value).decode() for key, value in binary.items()},
    }
    decoded = decode(message_of()["v1", "ConfigMap"], message.SerializeToString())
    assert decoded.pop("metadata") == {key: value for key, value in metadata.items() if value} | {"ownerReferences": [reference]}
    assert decoded == {key: value for key, value in wanted.items() if value}
