"""The settings of the proxy on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.cli.root import run


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--listen", "8001"], "--listen: 8001 is not an address and a port such as 127.0.0.1:8001"),
        (["--listen", "0.0.0.0:8001", "--share-credentials"], "--share-credentials: only on a loopback address"),
        (["--tls-cert-file", "a.crt"], "--tls-cert-file and --tls-private-key-file need each other"),
        (["--cache-size", "much"], "much"),
        (["--cache-idle", "long"], "long"),
    ],
)
def test_wrong_settings(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    """In one line, with the exit code 2."""
    assert run(["proxy", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_kubeconfig_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A missing file is one line."""
    assert run(["proxy", "--kubeconfig", str(tmp_path / "absent")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
