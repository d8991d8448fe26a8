"""Configuration files of authentication: decoding and validation, compared with kube-apiserver 1.37.2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.apis.jwt.configuration import GROUP, KIND, VERSIONS, ConfigurationError, decode_configuration
from kcp_py.apis.jwt.validation import validate_configuration

MESSAGES: list[dict[str, str]] = json.loads(Path(__file__).with_name("upstream_messages.json").read_text())
"""Files with the messages with which kube-apiserver refuses to start; an empty message where it starts."""

AUTHENTICATOR: dict[str, Any] = {
    "issuer": {"url": "https://idp.example", "audiences": ["kcp"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


def problem(data: bytes, *disallowed: str) -> str:
    try:
        _, problems = validate_configuration(decode_configuration(data), disallowed)
    except ConfigurationError as error:
        return str(error)
    return aggregate(problems) if problems else ""


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: str(case["name"]))
def test_messages_are_those_of_upstream(case: dict[str, str]) -> None:
    """Each wrong file has the message that kube-apiserver has for it."""
    assert problem(case["file"].encode()) == case["message"]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_versions_are_read(version: str) -> None:
    """The three versions of the kind have the same fields."""
    document = {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "jwt": [AUTHENTICATOR]}
    assert problem(json.dumps(document).encode()) == ""


def test_the_sample_is_valid() -> None:
    """The file in config/samples can be used as it is."""
    assert problem((Path(__file__).parents[3] / "config/samples/authentication.yaml").read_bytes()) == ""
