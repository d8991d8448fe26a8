"""`kcp-py controllers`: its flags and how it ends. What it does is tested in e2e/test_controllers_apart.py."""

from __future__ import annotations

import pytest

from kcp_py.cli.root import run


def test_the_help_has_the_settings_that_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the controllers and of the logs, and none of the server."""
    assert run(["controllers", "--help"]) == 0
    shown = capsys.readouterr().out
    for flag in (
        "--kubeconfig",
        "--context",
        "--controllers",
        "--leader-elect",
        "--namespace-deletion-grace",
        "--event-ttl",
        "--simulate",
        "--log-level",
    ):
        assert flag in shown
    assert "--storage" not in shown


def test_an_unknown_controller_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the known names, before the kubeconfig is read."""
    assert run(["controllers", "--controllers", "*,-namspaces", "--kubeconfig", "/nonexistent"]) == 2
    assert (
        "error: --controllers: unknown controllers: namspaces; there are certificatesigningrequest-approving-controller, "
        in capsys.readouterr().err
    )


def test_a_kubeconfig_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 1."""
    assert run(["controllers", "--kubeconfig", "/nonexistent"]) == 1
    assert capsys.readouterr().err == "error: /nonexistent: No such file or directory\n"
