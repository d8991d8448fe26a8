"""The caching proxy and its sample, with kubectl: in front of this program's server, and of a real kube-apiserver where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.conftest import ServerProcess
from e2e.kubeapiserver import TOKEN, kube_apiserver
from e2e.programs import running
from tests.ports import reserve_port

SAMPLE = Path(__file__).parents[1] / "config/samples/library/caching_proxy.py"
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def proxied(kubectl_binary: str, home: Path, command: list[str], *, port: int, path: str, token: str) -> Iterator[Kubectl]:
    """kubectl through a proxy that is a process."""

    def run(*arguments: str, bearer: str = token, text: str = "") -> subprocess.CompletedProcess[str]:
        server = ["--server", f"https://127.0.0.1:{port}{path}", "--certificate-authority", str(home / ".kcp-proxy/pki/ca.crt")]
        program = [kubectl_binary, *server, "--token", bearer, *arguments]
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, env=environment, input=text)

    with running(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        yield run


def work(kubectl: Kubectl) -> None:
    """The daily commands, each on what the one before has done."""
    for name in ("one", "two"):
        created = kubectl("create", "configmap", name, "--from-literal=a=b")
        assert created.stdout == f"configmap/{name} created\n", created.stderr
    assert {"one", "two"} <= {line.split()[0] for line in kubectl("get", "configmaps").stdout.splitlines()}
    assert kubectl("label", "configmap", "one", "app=x").returncode == 0
    assert kubectl("get", "configmaps", "-l", "app=x", "-o", "name").stdout == "configmap/one\n"
    document = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "c"}})
    for flags in ((), ("--server-side", "--force-conflicts")):
        assert kubectl("apply", *flags, "-f", "-", text=document).returncode == 0
    assert kubectl("get", "configmap", "one", "-o", "jsonpath={.data.a}").stdout == "c"
    path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0&labelSelector=app%3Dx&timeoutSeconds=1"
    events = [json.loads(line) for line in kubectl("get", "--raw", path).stdout.splitlines()]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [("ADDED", "one")]
    assert kubectl("wait", "configmap/one", "--for=jsonpath={.data.a}=c", "--timeout=30s").returncode == 0
    assert "data" in kubectl("explain", "configmap").stdout
    assert kubectl("delete", "configmap", "one", "two").returncode == 0
    assert "NotFound" in kubectl("get", "configmap", "one", "-o", "yaml").stderr


def test_the_sample(server: ServerProcess, kubectl_binary: str, tmp_path: Path) -> None:
    """In front of a server with logical clusters."""
    port = reserve_port()
    command = [sys.executable, str(SAMPLE), str(server.kubeconfig), str(port)]
    with proxied(kubectl_binary, tmp_path, command, port=port, path="/clusters/proxied", token=server.token) as kubectl:
        work(kubectl)


def test_kube_apiserver(kubectl_binary: str, tmp_path: Path) -> None:
    """The command, with users of different rights; far fewer reads reach the server."""
    with kube_apiserver(tmp_path) as kube:
        port = reserve_port()
        command = [sys.executable, "-m", "kcp_py", "proxy", "--kubeconfig", str(kube.kubeconfig), "--listen", f"127.0.0.1:{port}"]
        with proxied(kubectl_binary, tmp_path, [*command, "--stale-ok"], port=port, path="", token=TOKEN) as kubectl:
            work(kubectl)
            refused = kubectl("get", "--raw", "/api/v1/configmaps?resourceVersion=0", bearer="bob-token")
            assert 'User "bob" cannot list resource "configmaps"' in refused.stderr

            def passed(count: int) -> float:
                """How many of some reads have reached the server."""
                before = _lists(kube.get("/metrics"))
                for _ in range(count):
                    assert kubectl("get", "configmaps", "-o", "json").returncode == 0
                return _lists(kube.get("/metrics")) - before

            # For a moment after deletions, which have no version, reads are passed on.
            deadline = time.monotonic() + 60
            while passed(1):
                assert time.monotonic() < deadline, "the cache does not answer"
            assert passed(20) == 0


def _lists(metrics: str) -> float:
    """How often config maps were listed."""
    lines = [line for line in metrics.splitlines() if line.startswith("apiserver_request_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'resource="configmaps"' in line and 'verb="LIST"' in line)
