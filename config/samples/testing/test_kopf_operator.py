"""An operator of kopf, and its test: the operator runs in a thread, against the cluster of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kopf
import kopf.testing
import pytest

from kcp_py.testing import BlockingCluster

SHIP = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "ark"}, "spec": {"port": "Jaffa"}}
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.fleet.example.com"},
    "spec": {
        "group": "fleet.example.com",
        "scope": "Namespaced",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
OPERATOR = """
import kopf

@kopf.on.login()
def login(**arguments):
    return kopf.login_with_kubeconfig(**arguments)

@kopf.on.create("fleet.example.com", "v1", "ships")
def sail(spec, patch, **_):
    if "port" not in spec:
        raise kopf.PermanentError("a ship needs a port")
    patch.status["phase"] = f"sails to {spec['port']}"
"""


@pytest.fixture
def operator(kcp_cluster: BlockingCluster, kcp_environment: Path, tmp_path: Path) -> Any:
    """The operator, which reads KUBECONFIG. It ends with the test."""
    assert kcp_environment.exists()
    kcp_cluster.apply(CRD)
    module = tmp_path / "operator.py"
    module.write_text(OPERATOR)
    with kopf.testing.KopfRunner(["run", "--standalone", "--namespace=default", str(module)], timeout=60) as runner:
        yield runner


def has_been_handled(ship: dict[str, Any]) -> bool:
    """Whether kopf has finished with the ship."""
    return "kopf.zalando.org/last-handled-configuration" in ship["metadata"]["annotations"]


@pytest.mark.usefixtures("operator")
def test_a_ship_sails(kcp_cluster: BlockingCluster) -> None:
    """The operator sees the ship and writes its status."""
    kcp_cluster.apply(SHIP)
    kcp_cluster.wait_for("ships.fleet.example.com", "ark", lambda ship: ship["status"]["phase"] == "sails to Jaffa")


@pytest.mark.usefixtures("operator")
def test_a_ship_without_a_port(kcp_cluster: BlockingCluster) -> None:
    """The operator gives it up, and does not touch its status."""
    kcp_cluster.apply({**SHIP, "spec": {}})
    kcp_cluster.wait_for("ships.fleet.example.com", "ark", has_been_handled)
    assert "phase" not in kcp_cluster.get("ships.fleet.example.com", "ark").get("status", {})
