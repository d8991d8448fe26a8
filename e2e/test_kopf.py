"""An operator made with kopf, in one process for two logical clusters."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Watch, create_definition, definition

pytest.importorskip("kopf", reason="kopf is not installed")

GROUP = "kopf.example.com"
EXERCISED = "operator in two clusters of one process: discovery, peering, create with retry, status, update, resume, finalizer, events"
MERGE = {"Content-Type": "application/merge-patch+json"}
CLUSTERS = ("kopf-a", "kopf-b")
PEERINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterkopfpeerings.kopf.dev"},
    "spec": {
        "group": "kopf.dev",
        "scope": "Cluster",
        "names": {"plural": "clusterkopfpeerings", "singular": "clusterkopfpeering", "kind": "ClusterKopfPeering"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


class Operator:
    """The operator's process, and what it has said."""

    def __init__(self, server: ServerProcess, log: Path) -> None:
        urls = [f"{server.url}/clusters/{name}" for name in CLUSTERS]
        command = [sys.executable, "-W", "ignore", "-m", "e2e.operator_of_ships", str(server.ca_file), server.token, *urls]
        with log.open("a") as stream:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, text=True, cwd=Path(__file__).parents[1])
        # A reader of its output then sees the end.
        self._timer = threading.Timer(2 * TIMEOUT, self.process.kill)
        self._timer.start()
        self.said: list[dict[str, Any]] = []
        self._log = log

    def until(self, enough: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Read its output up to an expected text."""
        assert self.process.stdout is not None
        while not enough(self.said):
            line = self.process.stdout.readline()
            assert line, self._log.read_text()[-4000:]
            self.said.append(json.loads(line))

    def of(self, cluster: str, what: str) -> list[dict[str, Any]]:
        return [one for one in self.said if (one["cluster"], one["what"]) == (cluster, what)]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, if it still runs, and return how it ended."""
        self._timer.cancel()
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def operator(server: ServerProcess, tmp_path: Path) -> Iterator[Callable[[], Operator]]:
    """Starts the operator; whatever runs at the end is killed."""
    started: list[Operator] = []

    def start() -> Operator:
        started.append(Operator(server, tmp_path / "operator.log"))
        return started[-1]

    yield start
    for one in started:
        one.stop(signal.SIGKILL)


def until(server: ServerProcess, path: str, name: str, enough: Callable[[str, dict[str, Any]], bool]) -> dict[str, Any]:
    """Watch one object of a collection up to an event that is enough, and return its object."""
    with Watch(server, f"{path}?watch=1&fieldSelector=metadata.name%3D{name}&timeoutSeconds={TIMEOUT}") as watch:
        for event in watch:
            if enough(event["type"], event["object"]):
                found: dict[str, Any] = event["object"]
                return found
    raise AssertionError(f"{path}: {name} has not become what was waited for")


@pytest.mark.compatibility("kopf", version("kopf"), EXERCISED)
def test_operator_of_two_clusters(server: ServerProcess, operator: Callable[[], Operator]) -> None:
    """Each cluster's ships are handled as that cluster has them: created with a retry, updated, resumed after a restart, let go at last."""
    ships = {}
    for cluster, color in zip(CLUSTERS, ("red", "blue"), strict=True):
        create_definition(server, cluster, PEERINGS)
        create_definition(server, cluster, definition(GROUP, "ships", "Ship", {"color": {"type": "string"}}))
        peering = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "ships"}}
        assert server.request("POST", f"/clusters/{cluster}/apis/kopf.dev/v1/clusterkopfpeerings", peering).code == 201
        ships[cluster] = f"/clusters/{cluster}/apis/{GROUP}/v1/namespaces/default/ships"
        ship = {"apiVersion": f"{GROUP}/v1", "kind": "Ship", "metadata": {"name": "ann"}, "spec": {"color": color}}
        assert server.request("POST", ships[cluster], ship).code == 201

    one, other = CLUSTERS
    first = operator()
    first.until(lambda _: all(len(first.of(cluster, "create")) == 2 for cluster in CLUSTERS))
    assert [said["retry"] for said in first.of(one, "create")] == [0, 1]
    for cluster, color in zip(CLUSTERS, ("red", "blue"), strict=True):
        ann = until(server, ships[cluster], "ann", lambda _, item: "create" in item.get("status", {}))
        assert ann["status"]["painted"] == color
        assert ann["status"]["create"] == {"tries": 2}
        assert ann["metadata"]["finalizers"] == [f"{GROUP}/dock"]
        peering = until(
            server, f"/clusters/{cluster}/apis/kopf.dev/v1/clusterkopfpeerings", "ships", lambda _, item: bool(item.get("status"))
        )
        assert len(peering["status"]) == 1
    server.request("PATCH", f"{ships[one]}/ann", {"spec": {"color": "green"}}, headers=MERGE)
    first.until(lambda _: bool(first.of(one, "update")))
    assert first.of(one, "update")[0].items() >= {"old": "red", "new": "green"}.items()
    until(server, ships[one], "ann", lambda _, item: item["status"]["painted"] == "green")
    events = f"/clusters/{one}/api/v1/namespaces/default/events"
    with Watch(server, f"{events}?watch=1&timeoutSeconds={TIMEOUT}") as watch:
        told = next(event["object"] for event in watch if event["object"]["reason"] == "Painted")
    assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Ship", "ann")
    assert first.stop() == 0

    second = operator()
    second.until(lambda _: all(second.of(cluster, "resume") for cluster in CLUSTERS))
    assert server.request("DELETE", f"{ships[other]}/ann").json["metadata"]["deletionTimestamp"]
    second.until(lambda _: bool(second.of(other, "delete")))
    with Watch(server, f"{ships[other]}?watch=1&resourceVersion={ann['metadata']['resourceVersion']}&timeoutSeconds={TIMEOUT}") as watch:
        assert any(event["type"] == "DELETED" for event in watch)
    assert server.request("GET", f"{ships[other]}/ann").code == 404
    assert "deletionTimestamp" not in server.request("GET", f"{ships[one]}/ann").json["metadata"]
    assert second.of(one, "update") == second.of(one, "create") == first.of(other, "update") == []
    assert second.stop() == 0
