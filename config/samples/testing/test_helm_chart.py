"""A chart of helm, and its test: helm installs it in the cluster of the test, where workloads become ready."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kcp_py.testing import BlockingCluster

HELM = os.environ.get("HELM") or shutil.which("helm")
CHART = """\
apiVersion: v2
name: shop
version: 0.1.0
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: shop:1}]}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The chart; a real test names the directory of its own."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(CHART)
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    (tmp_path / "templates" / "deployment.yaml").write_text(DEPLOYMENT)
    return tmp_path


@pytest.mark.skipif(HELM is None, reason="helm is not installed")
@pytest.mark.kcp(simulate="workloads", builtin_kinds="deployments.apps,replicasets.apps")
def test_the_chart_becomes_ready(kcp_cluster: BlockingCluster, kcp_environment: Path, chart: Path) -> None:
    """`--wait` returns, because the pods of the deployment become ready."""
    assert kcp_environment.exists()
    subprocess.run([str(HELM), "install", "corner", str(chart), "--set", "replicas=3", "--wait", "--timeout", "60s"], check=True)
    assert kcp_cluster.get("deployments.apps", "corner")["status"]["readyReplicas"] == 3
