"""The sample of an API group with a stored type does what it says, with kubectl."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.programs import serving

SAMPLE = Path(__file__).parents[1] / "config/samples/own_api_group.py"
ARGO = '{"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": {"home": "Iolcus"}}'

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubectl_binary: str, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl on one logical cluster of the sample."""
    with serving(SAMPLE, tmp_path) as url:

        def run(*arguments: str, document: str = "") -> subprocess.CompletedProcess[str]:
            command = [kubectl_binary, "--server", f"{url}/clusters/team-a", *arguments]
            environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, input=document)

        yield run


def test_kubectl_works_with_the_type(kubectl: Kubectl) -> None:
    """It is created, applied, scaled, listed, explained, refused by the rules and deleted."""
    assert kubectl("create", "-f", "-", document=ARGO).stdout == "ship.fleet.example.com/argo created\n"
    assert kubectl("apply", "--server-side", "-f", "-", document=ARGO).stdout == "ship.fleet.example.com/argo serverside-applied\n"
    assert kubectl("scale", "ship", "argo", "--replicas", "50").stdout == "ship.fleet.example.com/argo scaled\n"
    assert [line.split() for line in kubectl("get", "sh").stdout.splitlines()] == [
        ["NAME", "HOME", "CREW", "PHASE"],
        ["argo", "Iolcus", "50", "Docked"],
    ]
    patched = kubectl("patch", "ship", "argo", "--subresource", "status", "--type", "merge", "-p", '{"status": {"phase": "AtSea"}}')
    assert patched.returncode == 0, patched.stderr
    assert kubectl("get", "ship", "argo", "-o", "jsonpath={.status.phase}").stdout == "AtSea"
    moved = kubectl("patch", "ship", "argo", "--type", "merge", "-p", '{"spec": {"home": "Corinth"}}')
    assert "a ship keeps its home port" in moved.stderr
    assert "Home port." in kubectl("explain", "ships.spec.home").stdout
    assert kubectl("delete", "ship", "argo").stdout == 'ship.fleet.example.com "argo" deleted from default namespace\n'
