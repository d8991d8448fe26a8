"""A script that uses kr8s, and its test."""

from __future__ import annotations

from pathlib import Path

import kr8s
from kr8s.objects import ConfigMap

from kcp_py.testing import BlockingCluster


def delete_old(kubeconfig: str) -> list[str]:
    """The script: it deletes the config maps with the label `old` and returns their names."""
    api = kr8s.api(kubeconfig=kubeconfig)
    found = list(api.get("configmaps", namespace="default", label_selector={"old": "yes"}))
    for config_map in found:
        config_map.delete()
    return [config_map.name for config_map in found]


def test_old_objects_go(kcp_cluster: BlockingCluster, kcp_kubeconfig: Path) -> None:
    """The script finds its objects by their label, and leaves the others."""
    for name, labels in (("first", {"old": "yes"}), ("second", {})):
        kcp_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
    assert delete_old(str(kcp_kubeconfig)) == ["first"]
    kcp_cluster.wait_gone("configmaps", "first")
    assert ConfigMap.get("second", namespace="default", api=kr8s.api(kubeconfig=str(kcp_kubeconfig))).name == "second"
