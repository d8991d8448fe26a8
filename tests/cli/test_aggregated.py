"""The control plane of a program with the settings of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.cli.aggregated import control_plane_of
from kcp_py.cli.exits import CommandError
from kcp_py.cli.root import run
from kcp_py.options import Options

PROGRAM = """
from kcp_py import ControlPlane, Options
ready = ControlPlane(Options(storage="memory", secure_port=7001))
def make(options):
    return ControlPlane(options)
other = 7
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The path of a program; each test has another one, because modules are imported once."""
    path = tmp_path / f"program_of_{tmp_path.name.replace('-', '_')}.py"
    path.write_text(PROGRAM)
    return str(path)


def test_given_settings_replace_those_of_the_program(program: str) -> None:
    """Also where a flag gives the default. Others stay."""
    found = control_plane_of(f"{program}:ready", Options(secure_port=8443), {"secure_port": "8443", "bind_address": None})
    assert (found.options.secure_port, found.options.storage) == (8443, "memory")
    found = control_plane_of(f"{program}:ready", Options(storage="sqlite"), {"storage": "sqlite"})
    assert found.options.storage == "sqlite"


def test_a_function_gets_the_settings(program: str) -> None:
    """All of them."""
    assert control_plane_of(f"{program}:make", Options(secure_port=8443), {}).options.secure_port == 8443


def test_other_objects_are_refused(program: str) -> None:
    """With the name of the object."""
    with pytest.raises(CommandError, match=r":other is neither a ControlPlane nor a function"):
        control_plane_of(f"{program}:other", Options(), {})


def test_without_a_kubeconfig_the_command_says_so(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In one line, with the exit code 1."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(["aggregated", f"{program}:ready"]) == 1
    assert capsys.readouterr().err == (
        "error: no kubeconfig is given, and this is no pod with a service account: KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT "
        "and the file /var/run/secrets/kubernetes.io/serviceaccount/token are needed in a pod\n"
    )
