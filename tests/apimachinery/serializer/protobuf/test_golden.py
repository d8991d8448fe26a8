"""The codecs against upstream's golden files: kinds with every field set, as Go's encoders wrote them in protobuf, JSON and YAML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcp_py.apimachinery.serializer.protobuf import decode, decode_envelope, encode, encode_object, has_message
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml, encode_yaml
from kcp_py.bootstrap.wire import message_of
from tests.corpus import TABLES

GOLDEN = TABLES / "k8s-api-testdata/testdata/HEAD"


def _name(file: Path) -> tuple[str, str]:
    """(apiVersion, kind) of `apps.v1.Deployment.pb`; the core group is written out in file names."""
    version, kind = file.stem.rsplit(".", 1)
    group, _, version = version.rpartition(".")
    return (version if group == "core" else f"{group}/{version}"), kind


FILES = {_name(file): file for file in sorted(GOLDEN.glob("*.pb"))}


def test_every_kind_has_a_message() -> None:
    """Whatever Go's clients can be asked to read or write is known."""
    if not FILES:
        pytest.skip(f"no golden files at {GOLDEN}")
    assert [name for name in FILES if not has_message(*name)] == []


@pytest.mark.parametrize(("api_version", "kind"), FILES)
def test_both_directions(api_version: str, kind: str) -> None:
    """Message and YAML decode to the JSON, and the JSON encodes to the same bytes."""
    body = FILES[api_version, kind].read_bytes()
    wanted = json.loads(FILES[api_version, kind].with_suffix(".json").read_bytes())
    text = FILES[api_version, kind].with_suffix(".yaml").read_bytes()
    assert decode_yaml(text) == wanted
    assert encode_yaml(wanted) == text
    envelope = decode_envelope(body)
    assert encode(message_of()[api_version, kind], wanted) == envelope.raw
    if kind == "WatchEvent":
        # It has no apiVersion and kind in any form.
        assert decode(message_of()[api_version, kind], envelope.raw) == wanted
        return
    assert encode_object(wanted) == body
    types = {"apiVersion": envelope.api_version, "kind": envelope.kind}
    assert {**types, **decode(message_of()[api_version, kind], envelope.raw)} == wanted
