"""`kcp-py generate models --from-cluster` with a server process: built-in kinds and CRDs, as administrator and as a tenant."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.conftest import ServerProcess
from kcp_py.cli.remote import RemoteServer, load_context
from kcp_py.client.models import decode, encode

pytestmark = pytest.mark.slow

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList", "shortNames": ["bt"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A boat.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["homePort"],
                                "properties": {
                                    "homePort": {"type": "string", "minLength": 1},
                                    "crew": {"type": "integer", "default": 2},
                                    "key": {"type": "string", "format": "byte"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
BOAT = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "a", "namespace": "default"}}


class Server(NamedTuple):
    """A running server, and the kubeconfig of a user of team-a who may view, and so may not list CRDs."""

    administrator: Path
    tenant: Path

    def generate(self, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return run("generate", "models", "--kubeconfig", str(kubeconfig), "--from-cluster", "team-a", *arguments)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kcp_py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ)


def succeeds(*arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose logical cluster team-a has a CRD and a tenant."""
    directory = tmp_path_factory.mktemp("models")
    process = ServerProcess(directory / ".kcp", "--storage", "memory", "--builtin-kinds", "deployments.apps")
    process.start()
    try:
        administrator, tenant = process.root / "admin.kubeconfig", directory / "bob.kubeconfig"
        kubeconfig = ("--kubeconfig", str(administrator))
        succeeds("cluster", "create", "team-a", *kubeconfig)
        succeeds("cluster", "grant", "team-a", "--role", "view", "--user", "bob", *kubeconfig)
        succeeds("cluster", "kubeconfig", "team-a", "--user", "bob", "-o", str(tenant), *kubeconfig)
        with RemoteServer(load_context(str(administrator), None)) as remote:
            remote.request("POST", "/clusters/team-a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
            crd: dict[str, Any] = {}
            while "Established" not in json.dumps(crd.get("status", {})):
                crd = remote.request("GET", "/clusters/team-a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com")
        yield Server(administrator, tenant)
    finally:
        process.stop()


def module(text: str, directory: Path) -> ModuleType:
    """A module that was written, imported."""
    file = directory / "written.py"
    file.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("written", file)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules["written"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("style", ["pydantic", "dataclass"])
def test_crds_of_a_cluster(server: Server, tmp_path: Path, style: str) -> None:
    """All of them, or one by its name; `generate crds` makes the same schema of the classes again."""
    for names in ((), ("boats.example.com",)):
        done = server.generate(server.administrator, "--style", style, *names)
        assert (done.returncode, done.stderr) == (0, "")
        written = module(done.stdout, tmp_path)
        boat: Any = decode(written.Boat, {**BOAT, "spec": {"homePort": "Pylos", "key": "aGk="}})
        assert (boat.spec.home_port, boat.spec.crew, boat.spec.key) == ("Pylos", 2, b"hi")
        boat.spec.key = b"\xff"
        assert encode(boat)["spec"]["key"] == "/w=="
    (again,) = yaml.safe_load_all(succeeds("generate", "crds", str(tmp_path / "written.py")))
    schema = again["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"] == CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert again["spec"]["names"] == CRD["spec"]["names"]


def test_built_in_kinds(server: Server, tmp_path: Path) -> None:
    """From the OpenAPI document, with the types that they refer to."""
    done = server.generate(server.administrator, "configmaps", "secrets", "deployments.apps", "-o", str(tmp_path / "kinds.py"))
    assert (done.returncode, done.stderr) == (0, "")
    kinds = module((tmp_path / "kinds.py").read_text("utf-8"), tmp_path)
    secret: Any = decode(kinds.Secret, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": "/w=="}})
    assert secret.data == {"key": b"\xff"}
    container = {"name": "web", "image": "nginx"}
    spec = {"selector": {}, "template": {"spec": {"containers": [container]}}}
    deployment: Any = decode(kinds.Deployment, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
    assert deployment.spec.template.spec.containers[0].image == "nginx"
    assert encode(deployment)["spec"] == spec


def test_a_tenant_without_permission_to_list_crds(server: Server, tmp_path: Path) -> None:
    """One line says what to do; resources that are named come from the OpenAPI document, those of CRDs, too."""
    refused = server.generate(server.tenant)
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
    assert 'User "bob" cannot list resource "customresourcedefinitions"' in refused.stderr
    assert "name resources, such as configmaps or deployments.apps" in refused.stderr
    done = server.generate(server.tenant, "configmaps", "boats.example.com")
    assert (done.returncode, done.stderr) == (0, "")
    written = module(done.stdout, tmp_path)
    boat: Any = decode(written.Boat, {**BOAT, "spec": {"homePort": "Pylos", "key": "aGk="}})
    assert (boat.spec.home_port, boat.spec.key, boat.__resource__.plural) == ("Pylos", b"hi", "boats")
    assert written.ConfigMap.__resource__.kind == "ConfigMap"


@pytest.mark.parametrize("who", ["administrator", "tenant"])
@pytest.mark.parametrize("name", ["ships.example.com", "ships.nowhere.example", "ships"])
def test_resources_that_are_not_there(server: Server, who: str, name: str) -> None:
    """One line names the resource."""
    done = server.generate(getattr(server, who), name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [f"error: {name}: the server has no such resource"]


def test_another_cluster(server: Server) -> None:
    """A tenant reads nothing of a cluster that others have."""
    done = run("generate", "models", "--kubeconfig", str(server.tenant), "--from-cluster", "team-b", "configmaps")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
