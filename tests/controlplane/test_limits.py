"""The options are the limits of clusters that state none."""

from __future__ import annotations

from kcp_py.controlplane.limits import default_limits
from kcp_py.options import Options
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits


def test_options_are_limits():
    """None by default."""
    assert default_limits(Options()) == NO_LIMITS
    options = Options(
        logical_cluster_total_object_limit=1,
        logical_cluster_total_byte_limit=2,
        logical_cluster_definition_limit=3,
        logical_cluster_watch_limit=4,
        logical_cluster_request_limit=5,
        logical_cluster_request_burst=6,
    )
    assert default_limits(options) == Limits(1, 2, 3, 4, 5, 6)
