"""The sample of an embedded server does what it says, with kubectl."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.programs import serving

SAMPLE = Path(__file__).parents[1] / "config/samples/embedded_server.py"

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubectl_binary: str, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl on one logical cluster of the sample."""
    with serving(SAMPLE, tmp_path) as url:

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [kubectl_binary, "--server", f"{url}/clusters/team-a", *arguments]
            environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)

        yield run


def test_kubectl_sees_the_resource_and_the_rule(kubectl: Kubectl) -> None:
    """A table of what no store holds, a refusal in the rule's words, and objects like anywhere else."""
    assert [line.split() for line in kubectl("get", "planets").stdout.splitlines()] == [
        ["NAME", "MOONS"],
        ["mercury", "0"],
        ["earth", "1"],
        ["mars", "2"],
    ]
    assert kubectl("get", "planet", "mars", "-o", "jsonpath={.spec.moons}").stdout == "2"
    assert 'planets.example.com "pluto" not found' in kubectl("get", "planet", "pluto").stderr
    assert "me has to use a Secret" in kubectl("create", "configmap", "secret-plans").stderr
    assert kubectl("create", "configmap", "plans").stdout == "configmap/plans created\n"
    assert "clusterusages" in kubectl("api-resources").stdout
    assert kubectl("get", "clusterusages").returncode == 0
    assert "Planet" in kubectl("explain", "planets").stdout
