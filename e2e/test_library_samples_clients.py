"""The samples of clients and controllers do what they say, with kubectl."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2e.conftest import Kubectl, ServerProcess
from e2e.programs import serving
from tests.client.ships import ship_crd

SAMPLES = Path(__file__).parents[1] / "config/samples/library"
ARGO = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": {"home": "Iolcus"}}
HOME = ("-o", "jsonpath={.data.home}")
BOOK = ("configmap", "log-of-argo")


def keeps_log_books(kubectl: Callable[..., str]) -> None:
    """A ship gets a log book, again when it is deleted, and loses it with the ship."""
    kubectl("create", "-f", "-", stdin=json.dumps(ARGO))
    kubectl("wait", "--for=create", "configmap/log-of-argo", "--timeout=60s")
    assert kubectl("get", *BOOK, *HOME) == "Iolcus"
    kubectl("delete", *BOOK)
    kubectl("wait", "--for=create", "configmap/log-of-argo", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.reason}=Written", "events", "--field-selector=involvedObject.name=argo", "--timeout=60s")
    kubectl("delete", "ship", "argo")
    kubectl("wait", "--for=delete", "configmap/log-of-argo", "--timeout=60s")


def test_a_function_in_the_process_of_its_control_plane(kubectl_binary: str, tmp_path: Path) -> None:
    """The sample serves its kind and looks after it."""
    with serving(SAMPLES / "log_books.py", tmp_path) as server:

        def kubectl(*arguments: str, stdin: str = "") -> str:
            command = [kubectl_binary, "--server", f"{server}/clusters/team-a", *arguments]
            environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True, env=environment, input=stdin).stdout

        keeps_log_books(kubectl)


def test_the_function_in_a_process_of_its_own(server: ServerProcess, kubectl: Callable[[str], Kubectl], tmp_path: Path) -> None:
    """It is elected, works in one cluster or in all, and stops in order."""
    in_cluster: Any = kubectl("books")
    in_cluster.run("create", "-f", "-", stdin=json.dumps(ship_crd()))
    in_cluster.run("wait", "--for=condition=Established", "crd/ships.fleet.example.com", "--timeout=60s")
    command = [
        sys.executable,
        "-m",
        "kcp_py",
        "controllers",
        "--app",
        str(SAMPLES / "log_books.py"),
        "--kubeconfig",
        str(server.kubeconfig),
    ]
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen([*command, "--lease", "root/default/log-books"], stdout=file, stderr=file)
    try:
        keeps_log_books(in_cluster.run)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    text = log.read_text()
    assert "leader_elected" in text
    assert "reconciling_stopped" in text
    lease = json.loads(kubectl("root").run("get", "lease", "log-books", "-o", "json"))
    assert not lease["spec"].get("holderIdentity")
