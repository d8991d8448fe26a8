"""A program that uses the client `kubernetes`, and its test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes

from kcp_py.testing import BlockingCluster


def raise_prices(client: Any) -> None:
    """The program: it adds 1 to each price."""
    core = kubernetes.client.CoreV1Api(client)
    prices = core.read_namespaced_config_map("prices", "default")
    prices.data = {name: str(int(price) + 1) for name, price in prices.data.items()}
    core.replace_namespaced_config_map("prices", "default", prices)


def test_prices_rise(kcp_cluster: BlockingCluster, kcp_kubeconfig: Path) -> None:
    """The program runs unchanged against the cluster of this test."""
    kcp_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"tea": "2"}})
    with kubernetes.config.new_client_from_config(str(kcp_kubeconfig)) as client:
        raise_prices(client)
    assert kcp_cluster.get("configmaps", "prices")["data"] == {"tea": "3"}
