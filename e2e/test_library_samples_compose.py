"""The samples of composed servers do what they say, with kubectl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.programs import serving

SAMPLES = Path(__file__).parents[1] / "config/samples/library"

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubectl_binary: str, tmp_path: Path) -> Kubectl:
    """kubectl on a URL."""

    def run(url: str, *arguments: str, document: Any = None) -> subprocess.CompletedProcess[str]:
        command = [kubectl_binary, "--server", url, *arguments]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        text = "" if document is None else json.dumps(document)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, input=text, cwd=tmp_path)

    return run


def test_a_server_of_one_type(kubectl: Kubectl, tmp_path: Path) -> None:
    """kubectl discovers, explains, creates, applies, watches and deletes the type, and finds no other one."""
    mars = {"apiVersion": "example.com/v1", "kind": "Planet", "metadata": {"name": "mars"}, "spec": {"moons": 2}}
    with serving(SAMPLES / "custom_types_only.py", tmp_path) as server:
        url = f"{server}/clusters/team-a"
        assert [line.split() for line in kubectl(url, "api-resources").stdout.splitlines()[1:]] == [
            ["planets", "example.com/v1", "false", "Planet"]
        ]
        assert kubectl(url, "create", "-f", "-", document=mars).stdout == "planet.example.com/mars created\n"
        assert kubectl(url, "apply", "--server-side", "-f", "-", document=mars).returncode == 0
        assert [line.split() for line in kubectl(url, "get", "planets").stdout.splitlines()] == [["NAME", "MOONS"], ["mars", "2"]]
        assert "moons" in kubectl(url, "explain", "planets.spec").stdout
        assert 'doesn\'t have a resource type "namespaces"' in kubectl(url, "get", "namespaces").stderr
        assert kubectl(url, "delete", "planet", "mars").returncode == 0


def test_functions_identify_allow_change_and_refuse(kubectl: Kubectl, tmp_path: Path) -> None:
    """Each function of the sample has its effect on a request of kubectl."""
    with serving(SAMPLES / "inline_hooks.py", tmp_path, scheme="https") as server:
        url = f"{server}/clusters/team-a"
        alice = ("--certificate-authority", ".kcp/pki/ca.crt", "--token", "alice")
        assert kubectl(url, *alice, "create", "configmap", "prices", "--from-literal", "currency=silver").returncode == 0
        assert kubectl(url, *alice, "get", "configmap", "prices", "-o", "jsonpath={.metadata.labels.trader}").stdout == "alice"
        refused = kubectl(url, *alice, "create", "configmap", "more", "--from-literal", "currency=gold").stderr
        assert 'ConfigMap "more" is invalid: data.currency: Unsupported value: "gold": supported values: "copper", "silver"' in refused
        assert kubectl(url, *alice, "create", "secret", "generic", "key").returncode == 0
        assert kubectl(url, *alice, "label", "secret", "key", "keep=yes").returncode == 0
        assert 'secrets "key" is forbidden: alice asked to keep it' in kubectl(url, *alice, "delete", "secret", "key").stderr
        assert kubectl(f"{server}/clusters/other", *alice, "get", "configmaps").returncode == 0
        assert "forbidden" in kubectl(f"{server}/clusters/other", *alice, "create", "configmap", "one").stderr
        assert "You must be logged in" in kubectl(url, *alice[:2], "--token", "nobody", "get", "configmaps").stderr
        assert "Forbidden" in kubectl(f"{server}/clusters/*", *alice, "get", "configmaps", "--all-namespaces").stderr
