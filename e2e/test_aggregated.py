"""The sample of an aggregated API server behind a real kube-apiserver, with kubectl and the real controllers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kubeapiserver import KubeAPIServer, find_binary, kube_apiserver
from e2e.programs import running
from tests.ports import reserve_port

SAMPLE = Path(__file__).parents[1] / "config/samples/library/aggregated.py"
TARGET = f"{SAMPLE}:control_plane"
WAIT_SECONDS = 120
pytestmark = pytest.mark.xdist_group("kube-apiserver")

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory, kubectl_binary: str) -> Iterator[KubeAPIServer]:
    """A kube-apiserver that forwards the group of the sample."""
    folder = tmp_path_factory.mktemp("kube")
    with kube_apiserver(folder) as server:
        port = reserve_port()
        program = [sys.executable, "-m", "kcp_py"]
        place = ["--service", "foo", "--namespace", "hello", "--host", "localhost", "--port", str(port)]
        objects = subprocess.run([*program, "generate", "apiservice", TARGET, *place], capture_output=True, text=True, check=True).stdout
        (folder / "objects.yaml").write_text(objects)
        options = ["--root-directory", str(folder / "aggregated"), "--secure-port", str(port), "--external-hostname", "foo.hello.svc"]
        command = [*program, "aggregated", TARGET, "--kubeconfig", str(server.kubeconfig), "--inject-ca-bundle", *options]
        with (folder / "aggregated.log").open("w") as log, running(command, stdout=subprocess.PIPE, stderr=log) as process:
            assert process.stdout is not None
            assert "as an aggregated API server" in process.stdout.readline(), (folder / "aggregated.log").read_text()
            admin = [kubectl_binary, "--kubeconfig", str(server.kubeconfig)]
            subprocess.run([*admin, "apply", "-f", str(folder / "objects.yaml")], check=True, capture_output=True)
            waiting = ["wait", "apiservice/v1.hello.zeng.dev", "--for=condition=Available", "--timeout=90s"]
            subprocess.run([*admin, *waiting], check=True, capture_output=True)
            yield server


@pytest.fixture
def kubectl(kube: KubeAPIServer, kubectl_binary: str, tmp_path: Path) -> Kubectl:
    """kubectl of the administrator."""

    def run(*arguments: str, document: Any = None, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [kubectl_binary, "--kubeconfig", str(kubeconfig or kube.kubeconfig), *arguments]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        text = "" if document is None else json.dumps(document)
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False, env=environment, input=text)

    return run


def wait_for(condition: Callable[[], bool], text: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, text
        time.sleep(0.2)


def foo(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": name, **metadata}, "spec": {"msg": "hi"}}


def test_behind_kube_apiserver(kube: KubeAPIServer, kubectl: Kubectl) -> None:
    """kubectl works with the type, permissions are those of kube-apiserver, and its controllers delete the objects."""
    assert kubectl("create", "-f", "-", document=foo("one")).stdout == "foo.hello.zeng.dev/one created\n"
    for flags in ((), ("--server-side",)):
        assert kubectl("apply", *flags, "-f", "-", document=foo(f"two{len(flags)}")).returncode == 0
    table = [line.split() for line in kubectl("get", "fo").stdout.splitlines()]
    assert table[:2] == [["NAME", "MESSAGE", "PHASE"], ["one", "hi", "Processing"]]
    wait_for(lambda: "The first message." in kubectl("explain", "foo.spec").stdout, "kubectl explain knows no fields")
    assert any("hello.zeng.dev" in path for path in kube.get("/openapi/v2")["paths"])
    assert 'namespaces "missing" not found' in kubectl("create", "-f", "-", document=foo("one", namespace="missing")).stderr
    assert "spec.msg" in kubectl("create", "-f", "-", document={**foo("bad"), "spec": {}}).stderr
    events = kubectl("get", "--raw", "/apis/hello.zeng.dev/v1/foos?watch=true&timeoutSeconds=1&resourceVersion=0").stdout
    assert [json.loads(line)["object"]["metadata"]["name"] for line in events.splitlines()][:3] == ["one", "two0", "two1"]

    bob = kube.kubeconfig_of("bob-token")
    for found in (kubectl("get", "fo", kubeconfig=bob), kubectl("get", "fo", "--as", "bob")):
        assert 'User "bob" cannot list resource "foos" in API group "hello.zeng.dev"' in found.stderr
    kubectl("create", "clusterrole", "foos", "--verb=get,list", "--resource=foos.hello.zeng.dev")
    kubectl("create", "rolebinding", "foos", "--clusterrole=foos", "--group=dev")
    assert kubectl("auth", "can-i", "list", "foos.hello.zeng.dev", kubeconfig=bob).stdout == "yes\n"
    # A refusal counts for 10 seconds.
    wait_for(lambda: kubectl("get", "fo", "one", "-o", "name", kubeconfig=bob).returncode == 0, "bob may not read")
    assert kubectl("delete", "fo", "one", kubeconfig=bob).returncode == 1
    assert kubectl("delete", "fo", "one").returncode == 0


def test_its_controllers(kube: KubeAPIServer, kubectl: Kubectl) -> None:
    """The namespace controller and the garbage collector of kube-controller-manager delete the objects."""
    binary = find_binary("kube-controller-manager")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    assert kubectl("create", "-f", "-", document=owner).returncode == 0
    uid = kubectl("get", "cm", "owner", "-o", "jsonpath={.metadata.uid}").stdout
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    assert kubectl("create", "-f", "-", document=foo("owned", ownerReferences=[reference])).returncode == 0
    assert kubectl("create", "namespace", "doomed").returncode == 0
    assert kubectl("create", "-f", "-", document=foo("one", namespace="doomed")).returncode == 0
    controllers = "--controllers=namespace-controller,garbage-collector-controller"
    flags = [controllers, "--leader-elect=false", f"--secure-port={reserve_port()}", f"--cert-dir={kube.directory / 'manager'}"]
    command = [binary, f"--kubeconfig={kube.kubeconfig}", *flags]
    with (kube.directory / "manager.log").open("w") as log, running(command, stdout=log, stderr=subprocess.STDOUT):
        assert kubectl("delete", "namespace", "doomed", "--timeout=90s").returncode == 0
        assert kubectl("delete", "configmap", "owner").returncode == 0
        wait_for(lambda: "owned" not in kubectl("get", "fo", "-A", "-o", "name").stdout, "the garbage collector does not see foos")
        assert "doomed" not in kubectl("get", "fo", "-A").stdout
