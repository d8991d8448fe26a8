"""The samples of composed servers do what they say, with kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.programs import running, serving

SAMPLES = Path(__file__).parents[1] / "config/samples/library"

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubectl_binary: str, tmp_path: Path) -> Kubectl:
    """kubectl on a URL."""

    def run(url: str, *arguments: str, document: Any = None) -> subprocess.CompletedProcess[str]:
        command = [kubectl_binary, *(["--server", url] if url else []), *arguments]
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


@pytest.mark.parametrize(
    ("command", "home"),
    [
        ([str(SAMPLES / "own_command.py"), "--home", "Iolcus"], "Iolcus"),
        (["-m", "kcp_py", "start", "--app", f"{SAMPLES / 'own_command.py'}:control_plane"], "Athens"),
    ],
    ids=["own command", "kcp-py start"],
)
def test_a_program_behind_a_command(kubectl: Kubectl, tmp_path: Path, command: list[str], home: str) -> None:
    """It has the settings, the root directory, the kubeconfig and the stop of `kcp-py start`."""
    ship = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo", "namespace": "default"}}
    arguments = [sys.executable, *command, "--secure-port", "0", "--storage", "memory", "--batteries", "namespaces"]
    with running(arguments, cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SAMPLES.parents[2])}) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("kcp-py serves https://")
        access = ("--kubeconfig", str(tmp_path / ".kcp/admin.kubeconfig"))
        url = json.loads(kubectl("", *access, "config", "view", "-o", "json").stdout)["clusters"][0]["cluster"]["server"]
        assert kubectl(url, *access, "create", "-f", "-", document=ship).returncode == 0
        assert kubectl(url, *access, "get", "ship", "argo", "-o", "jsonpath={.spec.home}").stdout == home
        process.terminate()
        assert process.wait(60) == 0


def test_a_store_inside_of_wrappers(kubectl: Kubectl, tmp_path: Path) -> None:
    """Calls are counted with their time, and the writes that one wrapper refuses are answered with its error."""
    with serving(SAMPLES / "wrapped_storage.py", tmp_path) as server:
        url = f"{server}/clusters/team-a"
        before = httpx.get(f"{server}/storage").json()["transact"]
        assert kubectl(url, "create", "configmap", "prices", "--from-literal", "currency=silver").returncode == 0
        after = httpx.get(f"{server}/storage").json()["transact"]
        assert after["calls"] > before["calls"]
        assert after["seconds"] - before["seconds"] >= 0.005
        refused = kubectl(url, "create", "secret", "generic", "key")
        assert refused.returncode == 1
        assert "full" in refused.stderr
        assert kubectl(url, "get", "configmap", "prices", "-o", "jsonpath={.data.currency}").stdout == "silver"
        assert kubectl(url, "get", "secrets", "-o", "name").stdout == ""


def test_an_api_inside_an_application(kubectl: Kubectl, tmp_path: Path) -> None:
    """kubectl works below a path, watches and documents of custom resources included; routes and middleware have their effect."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "description": "A boat."}}}
    names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    with serving(SAMPLES / "mounted.py", tmp_path, ready="/k8s/readyz") as server:
        url = f"{server}/k8s/clusters/team-a"
        assert kubectl(url, "create", "configmap", "one").returncode == 0
        assert kubectl(url, "get", "configmaps", "-o", "name").stdout == "configmap/one\n"
        assert kubectl(url, "wait", "configmap/one", "--for=create", "--timeout=30s").returncode == 0
        assert kubectl(url, "create", "-f", "-", document=crd).returncode == 0
        assert kubectl(url, "wait", "crd/boats.example.com", "--for=condition=Established", "--timeout=30s").returncode == 0
        assert "A boat." in kubectl(url, "explain", "boats").stdout
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "small"}}
        assert kubectl(url, "apply", "-f", "-", document=boat).stdout == "boat.example.com/small created\n"
        answer = httpx.get(f"{url}/summary")
        assert answer.json() == {"cluster": "team-a", "user": "me", "configMaps": 1}
        assert "fleet" in answer.headers["server"]
        assert httpx.get(server).json() == {"api": "/k8s"}
