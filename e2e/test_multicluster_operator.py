"""An operator made with kopf that handles the objects of all logical clusters through the wildcard: the sample that is documented."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Watch

pytest.importorskip("kopf", reason="kopf is not installed")

SAMPLES = Path(__file__).parents[1] / "config" / "samples"
STATE = "shop.example.com/state"
CHECKED = "shop.example.com/checked-in"
EXERCISED = (
    "one operator for all clusters on /clusters/* (kcp_py.contrib.kopf): create with retry, update, finalizer, timer, events, later CRDs"
)


def sample(name: str) -> Any:
    return yaml.safe_load((SAMPLES / name).read_text())


def databases(cluster: str) -> str:
    return f"/clusters/{cluster}/apis/shop.example.com/v1/namespaces/default/databases"


def install(server: ServerProcess, cluster: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> None:
    """Create the CRD of team A or B, depending on the spec, and a database `orders`."""
    crd = sample("team-a-crd.yaml" if "size" in spec else "team-b-crd.yaml")
    answer = server.request("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert answer.code == 201, answer.body
    path = f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1&timeoutSeconds={TIMEOUT}"
    with Watch(server, path) as watch:
        for event in watch:
            conditions = {one["type"]: one["status"] for one in event["object"].get("status", {}).get("conditions") or []}
            if event["object"]["metadata"]["name"] == crd["metadata"]["name"] and conditions.get("Established") == "True":
                break
    body = {**sample("team-a-database.yaml"), "spec": spec}
    body["metadata"] = {"name": "orders", "annotations": annotations or {}}
    answer = server.request("POST", databases(cluster), body)
    assert answer.code == 201, answer.body


def until(server: ServerProcess, cluster: str, enough: Callable[[str, dict[str, Any]], bool]) -> dict[str, Any]:
    """Watch the databases of a cluster up to an event that is enough, and return its object."""
    with Watch(server, f"{databases(cluster)}?watch=1&timeoutSeconds={TIMEOUT}") as watch:
        for event in watch:
            if enough(event["type"], event["object"]):
                found: dict[str, Any] = event["object"]
                return found
    raise AssertionError(f"{cluster}: the database did not reach the expected state")


def state_of(item: dict[str, Any]) -> str:
    found: str = item["metadata"].get("annotations", {}).get(STATE, "")
    return found


@pytest.fixture
def operator(server: ServerProcess, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kopf run` with the documented sample, on the administrator's kubeconfig."""
    command = [sys.executable, "-W", "ignore", "-m", "kopf", "run", "--all-namespaces", str(SAMPLES / "multicluster_operator.py")]
    root = Path(__file__).parents[1]
    with (tmp_path / "operator.log").open("w") as log:
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": str(root)}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=root, env=environment)
    timer = threading.Timer(2 * TIMEOUT, process.kill)
    timer.start()
    yield process
    timer.cancel()
    process.kill()
    process.wait(60)


@pytest.mark.compatibility("kopf, all clusters", version("kopf"), EXERCISED)
def test_one_operator_handles_every_cluster(server: ServerProcess, operator: subprocess.Popen[bytes]) -> None:
    """Objects of one name in several clusters are handled separately, writes reach the object's own cluster, and later clusters join."""
    one, other, later = "operator-a", "operator-b", "operator-c"
    install(server, one, {"size": 5})
    # What a tenant writes into the annotation that names the cluster must not lead the operator elsewhere.
    install(server, other, {"engine": "postgres"}, {"kcp.io/cluster": one})
    for cluster in (one, other):
        created = until(server, cluster, lambda _, item: state_of(item) == "created" and CHECKED in item["metadata"]["annotations"])
        assert created["metadata"]["annotations"][CHECKED] == cluster
        assert created["metadata"]["finalizers"] == ["shop.example.com/operator"]
    merge = {"Content-Type": "application/merge-patch+json"}
    assert server.request("PATCH", f"{databases(one)}/orders", {"spec": {"size": 6}}, headers=merge).code == 200
    until(server, one, lambda _, item: state_of(item) == f"updated in {one}")
    untouched = server.request("GET", f"{databases(other)}/orders").json
    assert (state_of(untouched), untouched["spec"]["engine"]) == ("created", "postgres")
    for cluster, reason in ((one, "Updated"), (other, "Created")):
        with Watch(server, f"/clusters/{cluster}/api/v1/namespaces/default/events?watch=1&timeoutSeconds={TIMEOUT}") as watch:
            event = next(event["object"] for event in watch if event["object"]["reason"] == reason)
        assert event["involvedObject"]["name"] == "orders"
        assert event["involvedObject"]["uid"] == server.request("GET", f"{databases(cluster)}/orders").json["metadata"]["uid"]

    install(server, later, {"size": 1})
    until(server, later, lambda _, item: state_of(item) == "created")

    revision = server.request("DELETE", f"{databases(other)}/orders").json["metadata"]["resourceVersion"]
    with Watch(server, f"{databases(other)}?watch=1&resourceVersion={revision}&timeoutSeconds={TIMEOUT}") as watch:
        assert any(event["type"] == "DELETED" for event in watch)
    assert server.request("GET", f"{databases(one)}/orders").code == 200
    operator.send_signal(signal.SIGTERM)
    assert operator.wait(60) == 0


@pytest.mark.compatibility("kubernetes (Python)", version("kubernetes"), "a controller for all clusters")
def test_a_controller_without_a_framework(server: ServerProcess, tmp_path: Path) -> None:
    """The documented program for the official client follows the databases of every cluster and writes a config map for each of them."""
    install(server, "watch-a", {"size": 5})
    with (tmp_path / "controller.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(SAMPLES / "multicluster_watch.py")],
            stderr=log,
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        )
    try:
        install(server, "watch-b", {"engine": "sqlite"})
        for cluster, wanted in (("watch-a", {"size": "5"}), ("watch-b", {"engine": "sqlite", "replicas": "1"})):
            path = f"/clusters/{cluster}/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds={TIMEOUT}"
            with Watch(server, path) as watch:
                found = next(event["object"] for event in watch if event["object"]["metadata"]["name"] == "about-orders")
            assert found["data"] == wanted
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(60)
