from __future__ import annotations

import subprocess
import sys

from kcp_py.telemetry.metrics import UNRESOLVED, RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry


def test_collect():
    """A registry shows what every collector has, in the order of their registration."""
    registry = MetricsRegistry()
    first, second = RequestMetrics(registry), RequestMetrics(registry)
    first.series("GET", UNRESOLVED).record(200, 0.1)
    second.series("GET", UNRESOLVED).record(200, 0.1)
    second.series("GET", UNRESOLVED).record(200, 0.1)
    totals = [family.samples[0].value for family in registry.collect() if family.name == "apiserver_request"]
    assert totals == [1, 2]


def test_the_library_waits():
    """Recording does not import the library that renders the metrics."""
    code = "import sys, kcp_py.telemetry.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
