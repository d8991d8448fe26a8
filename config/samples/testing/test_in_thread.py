"""A server in a thread, for tests without an event loop."""

from __future__ import annotations

import subprocess

from kcp_py.testing import serving


def test_a_program_with_a_kubeconfig() -> None:
    """Any client of Kubernetes takes the file."""
    with serving() as server:
        cluster = server.new_cluster("shop")
        command = ["kubectl", "--kubeconfig", str(cluster.write_kubeconfig()), "create", "configmap", "prices", "--from-literal=tea=2"]
        subprocess.run(command, check=True)
        assert cluster.get("configmaps", "prices")["data"] == {"tea": "2"}
