"""kubectl with evictions, connections, and services that get addresses; servers that share the ranges of services."""

from __future__ import annotations

import ipaddress
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import Kubectl, ServerProcess
from e2e.informer import Session
from e2e.pair import Etcd

KINDS = "pods,services,nodes,endpoints,poddisruptionbudgets.policy,*.apps"
WRITERS, USABLE = 20, 13
PODS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: free}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose pods become ready, and whose services get addresses."""
    arguments = ("--builtin-kinds", KINDS, "--simulate", "workloads", "--simulate-delay", "100ms")
    ranges = ("--service-cluster-ip-range", "10.96.0.0/16", "--service-node-port-range", "31000-31100")
    process = ServerProcess(tmp_path_factory.mktemp("workloads") / "root", *arguments, *ranges).start()
    try:
        yield process
    finally:
        process.stop()


def test_kubectl_drains_a_node(kubectl: Callable[[str], Kubectl]) -> None:
    """As far as the budget allows it: one of two pods goes, and the other one when the budget is gone."""
    run = kubectl("drain").run
    run("apply", "-f", "-", stdin=PODS)
    run("wait", "--for=condition=Ready", "pod/one", "pod/two", "--timeout=90s")
    run("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", "--timeout=90s")
    refused = run("drain", "n1", "--force", "--timeout=2s", fails=True)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert run("get", "node", "n1", "-o", "jsonpath={.spec.unschedulable}") == "true"
    run("wait", "--for=jsonpath={.status.currentHealthy}=1", "pdb/web", "--timeout=90s")
    assert len(run("get", "pods", "-l", "app=web", "-o", "name").split()) == 1
    run("delete", "pdb", "web")
    assert "drained" in run("drain", "n1", "--force", "--timeout=60s")
    assert run("get", "pods", "-o", "name").split() == ["pod/free"]


def test_kubectl_gets_no_connections(kubectl: Callable[[str], Kubectl]) -> None:
    """The errors are those of pods without a node; their logs are empty."""
    run = kubectl("connections").run
    run("run", "free", "--image=i")
    assert not run("logs", "free").strip()
    assert "container other is not valid for pod free" in run("logs", "free", "-c", "other", fails=True)
    assert 'pods "none" not found' in run("logs", "none", fails=True)
    run("wait", "--for=condition=Ready", "pod/free", "--timeout=90s")
    assert "pod free does not have a host assigned" in run("exec", "free", "--", "ls", fails=True)
    assert "pod free does not have a host assigned" in run("port-forward", "pod/free", ":80", fails=True)
    run("debug", "free", "--image=busybox", "--container=debugger", "--attach=false")
    assert run("get", "pod", "free", "-o", "jsonpath={.spec.ephemeralContainers[*].name}") == "debugger"
    small, large = ({"containers": [{"name": "free", "image": "i", "resources": {"requests": {"cpu": cpu}}}]} for cpu in ("1", "2"))
    run("run", "sized", "--image=i", "--overrides", json.dumps({"spec": {"schedulingGates": [{"name": "g"}], **small}}))
    run("patch", "pod", "sized", "--subresource=resize", "-p", json.dumps({"spec": large}))
    assert run("get", "pod", "sized", "-o", "jsonpath={.spec.containers[0].resources.requests.cpu}") == "2"


def test_kubectl_makes_services(kubectl: Callable[[str], Kubectl]) -> None:
    """Services get addresses and node ports of the ranges."""
    run = kubectl("services").run
    run("create", "service", "nodeport", "door", "--tcp=80:8080")
    run("create", "deployment", "web", "--image=i", "--port=80")
    run("expose", "deployment", "web")
    run("create", "service", "clusterip", "headless", "--clusterip=None")
    addresses = [run("get", "service", name, "-o", "jsonpath={.spec.clusterIP}") for name in ("door", "web")]
    assert len({*addresses, "10.96.0.1"}) == 3
    assert all(ipaddress.ip_address(one) in ipaddress.ip_network("10.96.0.0/16") for one in addresses)
    port = run("get", "service", "door", "-o", "jsonpath={.spec.ports[0].nodePort}")
    assert 31000 <= int(port) <= 31100
    refused = run("create", "service", "nodeport", "other", "--tcp=80", f"--node-port={port}", fails=True)
    assert "provided port is already allocated" in refused
    assert run("get", "service", "headless", "-o", "jsonpath={.spec.clusterIP}") == "None"
    assert run("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}") == "10.96.0.1"


def test_two_servers_share_a_range(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> None:
    """Of many writers on both servers exactly as many get an address as there are, and no two the same."""
    etcd = Etcd(tmp_path).start()
    path = "/clusters/addresses/api/v1/namespaces/default/services"
    try:
        arguments = ("--builtin-kinds", "services", "--service-cluster-ip-range", "10.7.0.0/28")
        servers = [new_server("--storage", "etcd", "--etcd-servers", etcd.url, *arguments).start() for _ in range(2)]
        begin = threading.Barrier(WRITERS)
        codes: list[int] = []

        def run(number: int) -> None:
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}}
            with Session(servers[number % 2]) as session:
                session.request("GET", f"{path}/none")
                begin.wait(60)
                codes.append(session.request("POST", path, body)[0])

        threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert Counter(codes) == {201: USABLE, 500: WRITERS - USABLE}
        items = servers[0].request("GET", path).json["items"]
        assert len({item["spec"]["clusterIP"] for item in items}) == len(items) == USABLE + 1
    finally:
        etcd.kill()
