from __future__ import annotations

from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.histogram import Histogram


def test_families():
    """Each family is read when it is shown; one without a value is left out."""
    gauges, histogram, size = Gauges(), Histogram((1.0,)), None
    gauges.add("size_bytes", "Size.", lambda: size)
    gauges.add("adds", "Adds.", lambda: {("a",): 1.0, ("b",): 2.0}, kind="counter", labels=("name",))
    gauges.add("lag_seconds", "Lag.", lambda: histogram, kind="histogram")
    histogram.observe(0.5)
    found = {(sample.name, *sample.labels.values()): sample.value for family in gauges.collect() for sample in family.samples}
    assert found == {
        ("adds_total", "a"): 1,
        ("adds_total", "b"): 2,
        ("lag_seconds_bucket", "1"): 1,
        ("lag_seconds_bucket", "+Inf"): 1,
        ("lag_seconds_count",): 1,
        ("lag_seconds_sum",): 0.5,
    }
    size = 7.0
    assert next(iter(gauges.collect())).samples[0].value == 7
