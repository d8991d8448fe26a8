"""A server that has no default cluster: what names none is refused, and everything that the project ships names one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess

ROOT = Path(__file__).resolve().parent.parent
MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray"}}
FIX = "name it in the server URL (https://HOST:PORT/clusters/NAME) or in the header X-Kubernetes-Cluster"
REFUSAL = f"the request names no logical cluster: {FIX}"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that refuses requests without a cluster."""
    server = ServerProcess(tmp_path_factory.mktemp("strict") / "root", "--default-cluster", "").start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def admin(strict: ServerProcess, kubectl_binary: str, tmp_path: Path) -> Kubectl:
    """kubectl with the administrator's kubeconfig as it is."""
    return Kubectl(kubectl_binary, strict.kubeconfig, tmp_path / "cache")


def command(server: ServerProcess, *arguments: str) -> str:
    """What a command of kcp-py prints, with the administrator's kubeconfig."""
    return subprocess.run(
        [sys.executable, "-m", "kcp_py", *arguments, "--kubeconfig", str(server.kubeconfig)],
        capture_output=True,
        text=True,
        check=True,
        timeout=COMMAND_SECONDS,
    ).stdout


@pytest.mark.parametrize("path", [MAPS, "/api", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/"])
def test_a_request_without_a_cluster_is_refused(strict: ServerProcess, path: str) -> None:
    """Reads and writes alike get a Status that says how to name a cluster, and nothing is written anywhere."""
    for method in ("GET", "POST"):
        refused = strict.request(method, path, MAP if method == "POST" else None)
        assert (refused.code, refused.json["reason"], refused.json["message"]) == (400, "BadRequest", REFUSAL)
    assert strict.request("GET", f"/clusters/root{MAPS}/stray").code == 404


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/etcd", "/version", "/metrics"])
def test_the_servers_own_pages_need_no_cluster(strict: ServerProcess, path: str) -> None:
    """What monitoring asks for is answered."""
    assert strict.request("GET", path).code == 200


def test_path_and_header_name_a_cluster(strict: ServerProcess) -> None:
    """Each of the two ways is enough."""
    assert strict.request("POST", f"/clusters/named{MAPS}", MAP).code == 201
    assert strict.request("GET", f"{MAPS}/stray", headers={"X-Kubernetes-Cluster": "named"}).code == 200


def test_the_administrators_kubeconfig_names_root(admin: Kubectl) -> None:
    """Its current context works; the one without a cluster shows the refusal."""
    assert "default" in admin.run("get", "namespaces")
    assert "default" in admin.run("--context", "system:admin", "get", "namespaces")
    assert "the request names no logical cluster" in admin.run("--context", "base", "get", "--raw", MAPS, fails=True)
    assert "the request names no logical cluster" in admin.run("--context", "shard-base", "create", "namespace", "x", fails=True)


def test_a_proxy_that_drops_the_path_writes_nowhere(strict: ServerProcess, admin: Kubectl) -> None:
    """What comes through `kubectl proxy` of a context without a cluster is refused, and not written into root."""
    proxy = admin.start("--context", "base", "proxy", "--port", "0")
    try:
        assert proxy.stdout is not None
        address = proxy.stdout.readline().rsplit(" ", 1)[1].strip()
        through = Kubectl(admin.binary, Path("/dev/null"), admin.cache, f"http://{address}")
        assert "the request names no logical cluster" in through.run("create", "configmap", "stray", "--validate=false", fails=True)
    finally:
        proxy.kill()
        proxy.communicate()
    assert strict.request("GET", f"/clusters/root{MAPS}/stray").code == 404


def test_the_command_line_names_its_clusters(strict: ServerProcess) -> None:
    """Clusters are made, listed, entered and deleted without a default."""
    command(strict, "cluster", "create", "made")
    assert "made" in command(strict, "cluster", "list")
    kubeconfig = yaml.safe_load(command(strict, "cluster", "kubeconfig", "made"))
    assert kubeconfig["clusters"][0]["cluster"]["server"].endswith("/clusters/made")
    command(strict, "builtin", "install", "deployments.apps", "--cluster", "made")
    assert "deployments" in command(strict, "builtin", "list", "--cluster", "made")


def test_the_shipped_configurations_have_no_default() -> None:
    """The systemd unit and the sample configurations refuse requests that name no cluster."""
    for name in ("server.yaml", "server-etcd.yaml"):
        assert yaml.safe_load((ROOT / "config" / name).read_text())["defaultCluster"] == ""
    (start,) = [line for line in (ROOT / "config" / "kcp-py.service").read_text().splitlines() if line.startswith("ExecStart=")]
    assert '--default-cluster ""' in start
