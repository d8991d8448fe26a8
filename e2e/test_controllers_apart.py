"""A server without controllers and its controllers in a process of their own are together what one process is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.pair import Etcd

SECONDS = 90
LEASE = "/clusters/system:admin/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kcp-py-controllers"
CORE = "/clusters/apart/api/v1"
MAPS = "/clusters/apart/api/v1/namespaces/default/configmaps"
CRDS = "/clusters/apart/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/clusters/apart/apis/example.com/v1/namespaces/default/things"
CLUSTER = "/clusters/apart/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"


class Controllers:
    """`kcp-py controllers` in a process of its own."""

    def __init__(self, server: ServerProcess, log: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "kcp_py", "controllers", "--kubeconfig", str(server.kubeconfig), "--log-format", "json"]
        command += ["--metrics-bind-address", "127.0.0.1:0", *arguments]
        self.log = log
        with log.open("a") as file:
            self.process = subprocess.Popen(command, stderr=file, stdout=file, env={**os.environ, "KCP_PY_NAMESPACE_DELETION_GRACE": "0s"})

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=SECONDS)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if '"pages_served"' in line]
        url = lines[0]["url"]
        try:
            with urllib.request.urlopen(f"{url}{path}", timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def leads(self) -> bool:
        """Whether it has been elected."""
        return '"leader_elected"' in self.log.read_text()


@pytest.fixture(params=["sqlite", "etcd"])
def server(request: pytest.FixtureRequest, tmp_path: Path, new_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    """A server that runs no controllers."""
    if request.param == "sqlite":
        yield new_server("--controllers=-*").start()
        return
    etcd = Etcd(tmp_path).start()
    yield new_server("--controllers=-*", "--storage", "etcd", "--etcd-servers", etcd.url).start()
    etcd.kill()


@pytest.fixture
def run(server: ServerProcess, tmp_path: Path) -> Iterator[Callable[[], Controllers]]:
    """Starts the controllers of the server."""
    started: list[Controllers] = []

    def start() -> Controllers:
        started.append(Controllers(server, tmp_path / f"controllers{len(started)}.log"))
        return started[-1]

    yield start
    for one in started:
        one.stop(signal.SIGKILL)


def until(holds: Callable[[], Any]) -> None:
    """Ask again until something is true."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


def gone(server: ServerProcess, path: str) -> Callable[[], bool]:
    return lambda: server.request("GET", path).code == 404


def create(server: ServerProcess, path: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    version = "example.com/v1" if kind == "Thing" else "v1"
    metadata = {"name": name, **more.pop("metadata", {})}
    answer = server.request("POST", path, {"apiVersion": version, "kind": kind, "metadata": metadata, **more})
    assert answer.code == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def define(server: ServerProcess) -> None:
    """Create the CRD of things."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    answer = server.request("POST", CRDS, body)
    assert answer.code == 201, answer.body


def test_nothing_happens_until_the_controllers_run(server: ServerProcess, run: Callable[[], Controllers]) -> None:
    """A CRD is established, a namespace, a CRD, an owner and a cluster are deleted with what belongs to them once they do."""
    define(server)
    create(server, f"{CORE}/namespaces", "Namespace", "shop")
    create(server, f"{CORE}/namespaces/shop/configmaps", "ConfigMap", "inside")
    owner = create(server, f"{CORE}/namespaces/default/configmaps", "ConfigMap", "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    create(server, f"{CORE}/namespaces/default/configmaps", "ConfigMap", "dependent", metadata={"ownerReferences": [reference]})
    assert server.request("DELETE", f"{CORE}/namespaces/shop").code == 200
    assert server.request("DELETE", f"{CORE}/namespaces/default/configmaps/owner").code == 200
    assert server.request("GET", f"{CORE}/namespaces/shop/configmaps/inside").code == 200
    assert server.request("GET", f"{CORE}/namespaces/default/configmaps/dependent").code == 200
    assert server.request("GET", THINGS).code == 404

    run()
    until(gone(server, f"{CORE}/namespaces/shop"))
    until(gone(server, f"{CORE}/namespaces/default/configmaps/dependent"))
    until(lambda: server.request("GET", THINGS).code == 200)
    create(server, THINGS, "Thing", "one")
    assert server.request("DELETE", f"{CRDS}/things.example.com").code == 200
    until(gone(server, f"{CRDS}/things.example.com"))
    assert server.request("DELETE", f"{CLUSTER}?gracePeriodSeconds=0").code == 200
    until(lambda: server.request("GET", "/clusters/*/api/v1/configmaps").json["items"] == [])


@pytest.mark.slow
def test_work_goes_on_after_the_controllers_were_killed(server: ServerProcess, run: Callable[[], Controllers]) -> None:
    """Another process takes the lease when it ends, and does the remaining work; the Lease counts the change."""
    first = run()
    until(lambda: first.leads)
    first.stop(signal.SIGKILL)
    create(server, f"{CORE}/namespaces", "Namespace", "shop")
    create(server, f"{CORE}/namespaces/shop/configmaps", "ConfigMap", "inside")
    assert server.request("DELETE", f"{CORE}/namespaces/shop").code == 200
    second = run()
    until(gone(server, f"{CORE}/namespaces/shop"))
    assert second.leads
    spec = server.request("GET", LEASE).json["spec"]
    assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (1, 15)


def test_one_of_two_leads(server: ServerProcess, run: Callable[[], Controllers]) -> None:
    """The other one takes over as soon as the leader stops in order."""
    first = run()
    until(lambda: first.leads)
    second = run()
    until(lambda: '"controllers_started"' in second.log.read_text())
    holder = server.request("GET", LEASE).json["spec"]["holderIdentity"]
    assert not second.leads
    assert first.stop() == 0
    until(lambda: second.leads)
    assert server.request("GET", LEASE).json["spec"]["holderIdentity"] not in {"", holder}
    create(server, f"{CORE}/namespaces", "Namespace", "shop")
    assert server.request("DELETE", f"{CORE}/namespaces/shop").code == 200
    until(gone(server, f"{CORE}/namespaces/shop"))


def test_health_and_work_over_a_restart_of_the_server(server: ServerProcess, run: Callable[[], Controllers]) -> None:
    """Ready while changes are followed, alive all the time; after the restart work goes on, and SIGTERM ends the process while it waits."""
    leader = run()
    until(lambda: leader.leads and leader.get("/readyz") == (200, "ok"))
    standby = run()
    until(lambda: '"pages_served"' in standby.log.read_text() and standby.get("/readyz") == (200, "ok"))
    status = 'leader_election_master_status{name="kcp-py-controllers"}'
    assert [f"{status} {value}" in one.get("/metrics")[1] for one, value in ((leader, 1.0), (standby, 0.0))] == [True, True]
    server.stop()
    until(lambda: "[-]informer-sync failed" in leader.get("/readyz")[1])
    assert [leader.get("/livez"), leader.get("/healthz/leaderElection")] == [(200, "ok")] * 2
    server.start()
    until(lambda: leader.get("/readyz")[0] == standby.get("/readyz")[0] == 200)
    define(server)
    until(lambda: server.request("GET", THINGS).code == 200)
    assert standby.stop() == 0
    server.stop()
    assert leader.stop() == 0


def collected(server: ServerProcess) -> float:
    """How many objects and owners the garbage collector of a server has looked at."""
    text = server.request("GET", "/metrics").body.decode()
    (value,) = re.findall(r'^workqueue_adds_total\{name="garbage-collector-controller"\} (\S+)$', text, re.MULTILINE)
    return float(value)


def test_two_servers_on_one_etcd_elect_one(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> None:
    """It alone collects garbage, of writes through both servers. The controllers of the other begin when it ends."""
    etcd = Etcd(tmp_path).start()
    try:
        a, b = (new_server("--storage", "etcd", "--etcd-servers", etcd.url, "--log-format", "json").start() for _ in range(2))
        until(lambda: sum('"leader_elected"' in one.log_file.read_text() for one in (a, b)) == 1)
        leader, other = (a, b) if '"leader_elected"' in a.log_file.read_text() else (b, a)
        owner = create(other, MAPS, "ConfigMap", "owner")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        for server, name in ((leader, "first"), (other, "second")):
            create(server, MAPS, "ConfigMap", name, metadata={"ownerReferences": [reference]})
        assert other.request("DELETE", f"{MAPS}/owner").code == 200
        until(lambda: other.request("GET", MAPS).json["items"] == [])
        assert collected(leader) > 0
        assert collected(other) == 0
        leader.stop()
        until(lambda: '"leader_elected"' in other.log_file.read_text())
        create(other, f"{CORE}/namespaces", "Namespace", "shop")
        assert other.request("DELETE", f"{CORE}/namespaces/shop").code == 200
        until(gone(other, f"{CORE}/namespaces/shop"))
    finally:
        etcd.kill()


def test_quotas_are_counted_again(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> None:
    """A usage that was changed in the store itself becomes right without a write of a client."""
    etcd = Etcd(tmp_path).start()
    server = new_server("--controllers=-*", "--storage", "etcd", "--etcd-servers", etcd.url).start()
    controllers = Controllers(server, tmp_path / "controllers.log", "--resource-quota-sync-period=1s")
    try:
        for number in range(3):
            create(server, MAPS, "ConfigMap", f"m{number}")
        quotas = "/clusters/apart/api/v1/namespaces/default/resourcequotas"
        create(server, quotas, "ResourceQuota", "q", spec={"hard": {"count/configmaps": "5"}})
        key = "/registry/core/resourcequotas/apart/default/q"
        used = '"used":{"count/configmaps":"%s"}'
        stored = etcd.get(key)
        assert used % 3 in stored
        etcd.put(key, stored.replace(used % 3, used % 1))
        until(lambda: server.request("GET", f"{quotas}/q").json["status"]["used"]["count/configmaps"] == "3")
    finally:
        controllers.stop(signal.SIGKILL)
        etcd.kill()


def test_a_kubeconfig_that_is_missing_is_one_line(tmp_path: Path) -> None:
    """With exit code 1."""
    command = [sys.executable, "-m", "kcp_py", "controllers", "--kubeconfig", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert re.match(r"error: .*none: No such file or directory$", done.stderr)
