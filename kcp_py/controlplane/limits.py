"""The limits of logical clusters that state none, from the options."""

from __future__ import annotations

from kcp_py.options import Options
from kcp_py.registry.clusterlimits import Limits


def default_limits(options: Options) -> Limits:
    """The limits of each logical cluster that has no annotation for them."""
    return Limits(
        objects=options.logical_cluster_total_object_limit,
        size=options.logical_cluster_total_byte_limit,
        definitions=options.logical_cluster_definition_limit,
        watches=options.logical_cluster_watch_limit,
        requests=options.logical_cluster_request_limit,
        burst=options.logical_cluster_request_burst,
    )
