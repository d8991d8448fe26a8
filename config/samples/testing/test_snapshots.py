"""Tests that begin with the same hundred objects, which are made once."""

from __future__ import annotations

import pytest

from kcp_py import Snapshot
from kcp_py.testing import BlockingCluster, BlockingSnapshots, Server


@pytest.fixture(scope="session")
def prices(kcp_server: Server) -> Snapshot:
    """Made once for all tests."""
    template = kcp_server.new_cluster("prices")
    template.apply(*({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"price-{n}"}} for n in range(100)))
    return template.save()


def test_all_prices_go(kcp_snapshot: BlockingSnapshots, prices: Snapshot) -> None:
    """The clone is a new cluster of this test."""
    shop = kcp_snapshot.clone(prices, "shop")
    for number in range(100):
        shop.delete("configmaps", f"price-{number}")
    shop.restore(prices)
    assert shop.get("configmaps", "price-99")


def test_a_second_attempt_begins_like_the_first(kcp_cluster: BlockingCluster, kcp_snapshot: BlockingSnapshots) -> None:
    """The cluster stays, and clients go on with it."""
    begin = kcp_snapshot.save(kcp_cluster)
    for _ in range(2):
        kcp_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "attempt"}})
        kcp_snapshot.restore(begin)
        kcp_cluster.wait_gone("configmaps", "attempt")
