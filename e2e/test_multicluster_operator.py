"""An operator made with kopf that handles the objects of all logical clusters through the wildcard: the sample that is documented."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
MERGE = {"Content-Type": "application/merge-patch+json"}
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
    """The operator on the administrator's kubeconfig."""
    with running_operator(server.kubeconfig, tmp_path / "operator.log") as process:
        yield process


@contextmanager
def running_operator(kubeconfig: Path, log_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kopf run` with the documented sample."""
    command = [sys.executable, "-W", "ignore", "-m", "kopf", "run", "--all-namespaces", str(SAMPLES / "multicluster_operator.py")]
    root = Path(__file__).parents[1]
    with log_file.open("w") as log:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(root)}
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
    change_size(server, one, 6)
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


GRANTED = "one operator with a token of a service account that is replaced, and a ClusterAccessGrant, which it follows"


@pytest.mark.compatibility("kopf, all clusters", version("kopf"), GRANTED)
def test_an_operator_with_a_grant(server: ServerProcess, tmp_path: Path) -> None:
    """With the token of a service account and the documented grant the operator handles the granted clusters, and no other one."""
    one, other, hidden = clusters = [f"granted-{letter}" for letter in "abc"]
    for cluster in clusters:
        install(server, cluster, {"size": 5})
    accounts = "/clusters/root/api/v1/namespaces/operators/serviceaccounts"
    assert server.request("POST", "/clusters/root/api/v1/namespaces", {"metadata": {"name": "operators"}}).code == 201
    assert server.request("POST", accounts, {"metadata": {"name": "database-operator"}}).code == 201
    grants = "/clusters/root/apis/access.kcp-py.dev/v1alpha1/clusteraccessgrants"
    assert server.request("POST", grants, sample("database-operator-grant.yaml")).code == 201
    kubeconfig = tmp_path / "operator.kubeconfig"
    write_credentials(server, kubeconfig, "first")
    with running_operator(kubeconfig, tmp_path / "operator.log") as process:
        # At first it may find no definition of databases: it follows the definitions of the granted clusters.
        for cluster in (one, other):
            set_managed(server, cluster, "managed")
        for cluster in (one, other):
            until(server, cluster, lambda _, item: state_of(item) == "created" and CHECKED in item["metadata"]["annotations"])
        with Watch(server, f"/clusters/{one}/api/v1/namespaces/default/events?watch=1&timeoutSeconds={TIMEOUT}") as watch:
            assert any(event["object"]["reason"] == "Created" for event in watch)

        # The first token ends; the operator reads the second one.
        write_credentials(server, kubeconfig, "second")
        assert server.request("DELETE", "/clusters/root/api/v1/namespaces/operators/secrets/first").code == 200
        change_size(server, one, 6)
        until(server, one, lambda _, item: state_of(item) == f"updated in {one}")

        set_managed(server, other, None)
        set_managed(server, hidden, "managed")
        until(server, hidden, lambda _, item: state_of(item) == "created" and CHECKED in item["metadata"]["annotations"])
        change_size(server, other, 7)
        change_size(server, hidden, 7)
        until(server, hidden, lambda _, item: state_of(item) == f"updated in {hidden}")
        assert state_of(server.request("GET", f"{databases(other)}/orders").json) == "created"
        # Timers of the revoked cluster have stopped, and do not hold up the end.
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def set_managed(server: ServerProcess, cluster: str, value: str | None) -> None:
    """Set or remove the label by which the documented grant selects clusters."""
    path = f"/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    patch = {"metadata": {"labels": {"access.kcp-py.dev/databases": value}}}
    assert server.request("PATCH", path, patch, headers=MERGE).code == 200


def change_size(server: ServerProcess, cluster: str, size: int) -> None:
    assert server.request("PATCH", f"{databases(cluster)}/orders", {"spec": {"size": size}}, headers=MERGE).code == 200


def write_credentials(server: ServerProcess, kubeconfig: Path, secret: str) -> None:
    """A kubeconfig with a token of the operator's account that ends with a new secret."""
    namespace = "/clusters/root/api/v1/namespaces/operators"
    assert server.request("POST", f"{namespace}/secrets", {"metadata": {"name": secret}}).code == 201
    bound = {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret}}}
    answer = server.request("POST", f"{namespace}/serviceaccounts/database-operator/token", bound)
    assert answer.code == 201, answer.body
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"certificate-authority": str(server.ca_file), "server": server.url}}],
        "users": [{"name": "u", "user": {"token": answer.json["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    replacement = kubeconfig.with_suffix(".new")
    replacement.write_text(json.dumps(document))
    replacement.replace(kubeconfig)


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
