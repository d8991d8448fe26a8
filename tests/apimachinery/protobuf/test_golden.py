"""The codec against upstream's golden files: every served kind, as Go's encoders wrote it in protobuf and in JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kcp_py.apimachinery.protobuf import decode, decode_envelope
from kcp_py.bootstrap.wire import META, message_of

GOLDEN = Path(os.environ.get("KCP_PY_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus") / "tables/k8s-api-testdata/testdata/HEAD"
KINDS = sorted((version, kind) for version, kind in message_of() if not kind.endswith("List") and kind != "CustomResourceDefinition")


@pytest.mark.parametrize(("api_version", "kind"), [*KINDS, ("v1", "DeleteOptions")])
def test_decodes_to_what_go_writes_as_json(api_version: str, kind: str) -> None:
    """The protobuf form of an object with every field set decodes to its JSON form."""
    if not GOLDEN.is_dir():
        pytest.skip(f"no golden files at {GOLDEN}")
    stem = GOLDEN / f"{api_version.replace('/', '.') if '/' in api_version else f'core.{api_version}'}.{kind}"
    envelope = decode_envelope(Path(f"{stem}.pb").read_bytes())
    wanted = json.loads(Path(f"{stem}.json").read_bytes())
    assert (envelope.api_version, envelope.kind) == (wanted.pop("apiVersion"), wanted.pop("kind"))
    message = META + "DeleteOptions" if kind == "DeleteOptions" else message_of()[api_version, kind]
    assert decode(message, envelope.raw) == wanted
