"""Objects to messages: the bytes that Go writes, values that do not fit, and round trips."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kcp_py.apimachinery.serializer.protobuf import ProtobufError, decode, encode
from kcp_py.bootstrap.wire import META, message_of

CONFIG_MAP = message_of()["v1", "ConfigMap"]
LEASE = message_of()["coordination.k8s.io/v1", "Lease"]
CRD = message_of()["apiextensions.k8s.io/v1", "CustomResourceDefinition"]
SERVICE = message_of()["v1", "Service"]
POD = message_of()["v1", "Pod"]
LIMITS = message_of()["v1", "LimitRange"]


def test_zero_values_are_written() -> None:
    """Values other than pointers, lists and maps are written even where they are absent or null."""
    empty = encode(CONFIG_MAP, {})
    assert empty == bytes.fromhex("0a100a0012001a0022002a00320038004200")
    nulls = {"metadata": {"name": None, "generation": None, "creationTimestamp": None, "labels": None}, "data": None, "immutable": None}
    assert encode(CONFIG_MAP, nulls) == empty


def test_members_without_a_field_are_dropped() -> None:
    """A message has no place for what Go's structs do not know."""
    assert encode(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "unknown": {"a": [1]}}) == encode(CONFIG_MAP, {})


def test_maps_are_written_by_key() -> None:
    """The order of members in JSON does not show."""
    written = encode(CONFIG_MAP, {"data": {"é": "", "a": "1", "B": "", "ab": ""}, "binaryData": {"b": "AQ==", "a": ""}})
    assert written == encode(CONFIG_MAP, {"binaryData": {"a": "", "b": "AQ=="}, "data": {"ab": "", "B": "", "é": "", "a": "1"}})
    keys = [written.index(framed) for framed in (b"\x0a\x01B\x12", b"\x0a\x01a\x12\x01", b"\x0a\x02ab\x12", "\x0a\x02é\x12".encode())]
    assert keys == sorted(keys)
    assert written.index(b"\x0a\x01a\x12\x00") < written.index(b"\x0a\x01b\x12\x01\x01")


@pytest.mark.parametrize(
    ("message", "value", "problem"),
    [
        (CONFIG_MAP, {"data": {"a": 1}}, "data[a]: expected a string, found an integer"),
        (CONFIG_MAP, {"data": "a"}, "data: expected an object, found a string"),
        (CONFIG_MAP, {"binaryData": {"a": "!"}}, "binaryData[a]: illegal base64 data"),
        (CONFIG_MAP, {"binaryData": {"a": 5}}, "binaryData[a]: expected base64, found an integer"),
        (CONFIG_MAP, {"immutable": "true"}, "immutable: expected a boolean, found a string"),
        (CONFIG_MAP, {"metadata": []}, "metadata: expected an object, found an array"),
        (CONFIG_MAP, {"metadata": {"name": True}}, "metadata.name: expected a string, found a boolean"),
        (CONFIG_MAP, {"metadata": {"finalizers": ["a", {}]}}, "metadata.finalizers[1]: expected a string, found an object"),
        (CONFIG_MAP, {"metadata": {"finalizers": "a"}}, "metadata.finalizers: expected an array, found a string"),
        (
            CONFIG_MAP,
            {"metadata": {"ownerReferences": [{}, {"uid": 1}]}},
            "metadata.ownerReferences[1].uid: expected a string, found an integer",
        ),
        (CONFIG_MAP, {"metadata": {"generation": 1.5}}, "metadata.generation: expected an integer, found a number"),
        (CONFIG_MAP, {"metadata": {"generation": 1 << 63}}, "metadata.generation: 9223372036854775808 is out of range"),
        (LEASE, {"spec": {"leaseTransitions": 1 << 31}}, "spec.leaseTransitions: 2147483648 is out of range"),
        (LEASE, {"spec": {"leaseTransitions": True}}, "spec.leaseTransitions: expected an integer, found a boolean"),
        (LEASE, {"spec": {"renewTime": 5}}, "spec.renewTime: expected a time, found an integer"),
        (LEASE, {"spec": {"renewTime": "9" * 100}}, "spec.renewTime: not a time"),
        (LIMITS, {"spec": {"limits": [{"max": {"cpu": []}}]}}, "spec.limits[0].max[cpu]: expected a quantity, found an array"),
        (LIMITS, {"spec": {"limits": [{"max": {"cpu": "1Q"}}]}}, "spec.limits[0].max[cpu]: quantities must match the regular expression"),
        (
            CRD,
            {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"maximum": "1"}}}]}},
            "spec.versions[0].schema.openAPIV3Schema.maximum: ",
        ),
        (
            SERVICE,
            {"spec": {"ports": [{"targetPort": True}]}},
            "spec.ports[0].targetPort: expected an integer or a string, found a boolean",
        ),
        (SERVICE, {"spec": {"ports": [{"targetPort": 1 << 31}]}}, "spec.ports[0].targetPort: 2147483648 is out of range"),
        (POD, {"spec": {"volumes": [{"name": "a", "emptyDir": []}]}}, "spec.volumes[0].emptyDir: expected an object, found an array"),
        (CONFIG_MAP, {"data": {"a": "\ud800"}}, "a string that is not Unicode"),
        (CONFIG_MAP, [], "expected an object, found an array"),
    ],
)
def test_what_does_not_fit(message: str, value: Any, problem: str) -> None:
    """A value of another type is refused with its path."""
    with pytest.raises(ProtobufError) as raised:
        encode(message, value)
    assert str(raised.value).startswith(problem)


def test_times_of_any_year_are_exact() -> None:
    """Microseconds survive even far from the epoch, offsets are applied, and a missing time has no content."""
    for text in (
        "0001-01-01T00:00:00.000001Z",
        "9999-12-31T23:59:59.999999Z",
        "1969-12-31T23:59:59.999999Z",
        "2026-01-01T00:00:00.000000Z",
    ):
        assert decode(LEASE, encode(LEASE, {"spec": {"renewTime": text}}))["spec"]["renewTime"] == text
    shifted = encode(LEASE, {"spec": {"renewTime": "2026-01-01T01:30:00.5+01:30"}})
    assert decode(LEASE, shifted)["spec"]["renewTime"] == "2026-01-01T00:00:00.500000Z"
    assert encode(META + "ObjectMeta", {"creationTimestamp": "0001-01-01T00:00:00Z"}) == encode(META + "ObjectMeta", {})


def test_quantities_are_canonical() -> None:
    """A quantity is written as Go prints it, a number too."""
    written = encode(LIMITS, {"spec": {"limits": [{"max": {"cpu": "1000m", "memory": 1048576, "a": "1.5Gi"}, "type": "Pod"}]}})
    assert decode(LIMITS, written)["spec"]["limits"] == [{"type": "Pod", "max": {"cpu": "1", "memory": "1048576", "a": "1536Mi"}}]


def test_members_of_inlined_messages_are_the_containing_objects() -> None:
    """What Go's structs embed is one object in JSON and two on the wire."""
    probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5}
    spec = {
        "volumes": [{"name": "a", "configMap": {"name": "b", "optional": True}}, {"name": "c"}],
        "containers": [{"name": "x", "resources": {}, "envFrom": [{"secretRef": {"name": "s"}}], "livenessProbe": probe}],
    }
    assert decode(POD, encode(POD, {"spec": spec}))["spec"] == spec


def test_bytes_survive() -> None:
    """Empty bytes are not absent ones, and null is."""
    secret = message_of()["v1", "Secret"]
    value = {"data": {"a": base64.b64encode(bytes(range(256))).decode(), "b": "", "c": None}}
    assert decode(secret, encode(secret, value))["data"] == {**value["data"], "c": ""}


def test_definitions_survive() -> None:
    """Schemas that contain schemas, booleans in the place of schemas, and JSON within JSON come back."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"additionalProperties": True, "items": {"type": "string"}, "default": {"x": [1, None, {"y": 1.5}]}},
            "b": {"additionalProperties": {"type": "integer", "maximum": 1.5}, "items": [{"type": "string"}, {}]},
            "c": {"additionalProperties": False, "dependencies": {"p": ["q"], "r": {"type": "string"}}, "enum": ["x", 1, None]},
        },
    }
    value = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    assert decode(CRD, encode(CRD, value))["spec"]["versions"][0]["schema"] == {"openAPIV3Schema": schema}


def test_nesting_without_end_is_refused() -> None:
    """What no decoder would have let in does not exhaust the stack."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(ProtobufError, match="max depth"):
        encode("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", deep)
    with pytest.raises(ProtobufError, match="not JSON"):
        encode(META + "ManagedFieldsEntry", {"fieldsV1": deep})
    with pytest.raises(ProtobufError, match="found an object"):
        encode(CONFIG_MAP, {"data": {"a": deep}})
    # Freed from outside, or the interpreter recurses level by level.
    while deep:
        deep = deep["not"]
