"""The objects that register a program, as YAML."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcp_py.cli.root import run

SAMPLE = Path(__file__).parents[2] / "config/samples/library/aggregated.py"


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["generate", "apiservice", f"{SAMPLE}:control_plane", *arguments]) == 0
    return {one["kind"]: one for one in yaml.safe_load_all(capsys.readouterr().out)}


def test_pods(capsys: pytest.CaptureFixture[str]) -> None:
    """Their server injects its authority, and has a certificate for the Service."""
    found = written(capsys, "--service", "foo", "--image", "foos:1")
    command = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["kcp-py", "aggregated"]
    assert {"--inject-ca-bundle", "foo.foo.svc"} <= set(command)
    assert found["APIService"]["spec"]["service"] == {"name": "foo", "namespace": "foo", "port": 443}


def test_a_server_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By its DNS name; the port of an external name is that of the server."""
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    found = written(capsys, "--host", "foo.example.com", "--port", "8443", "--ca-bundle", str(tmp_path / "ca.crt"))
    assert found["Service"]["spec"] == {"type": "ExternalName", "externalName": "foo.example.com"}
    assert found["APIService"]["spec"]["service"]["port"] == 8443
    assert base64.b64decode(found["APIService"]["spec"]["caBundle"]) == b"PEM"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--ca-bundle", "absent.crt"], "absent.crt: No such file or directory"),
        (["--address", "foo"], "'foo' does not appear to be an IPv4 or IPv6 address"),
    ],
    ids=["no file", "no address"],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    """In one line."""
    assert run(["generate", "apiservice", f"{SAMPLE}:control_plane", *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_program_without_resources(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to register."""
    assert run(["generate", "apiservice", f"{SAMPLE}:SCHEMA"]) == 1
    assert "there are no resources to register" in capsys.readouterr().err
