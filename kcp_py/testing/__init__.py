"""Support for tests of users.

Belongs here: code for tests against this program or of its extensions: control planes and servers for tests, fixtures, suites for storage
drivers. Does not belong here: the tests of the program itself. Only the command line imports this package, for `kcp-py test-server`, and
only the modules that need them import pytest and hypothesis. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcp_py.testing.blocking import BlockingClock, BlockingCluster, BlockingSnapshots, Server, serving
    from kcp_py.testing.clock import FakeClock
    from kcp_py.testing.clusters import Cluster, ClusterObjects
    from kcp_py.testing.faults import Faults
    from kcp_py.testing.local import LocalServer, control_plane
    from kcp_py.testing.recording import Recording, SnapshotMismatchError, compare, record

API_SERVER_CONTROLLERS = (
    "customresourcedefinition-controller",
    "event-ttl-controller",
    "logicalcluster-controller",
    "validatingadmissionpolicy-status-controller",
)
"""Those that are a part of kube-apiserver. A server with these alone neither ends namespaces nor collects garbage, as in envtest."""

__all__ = [
    "API_SERVER_CONTROLLERS",
    "BlockingClock",
    "BlockingCluster",
    "BlockingSnapshots",
    "Cluster",
    "ClusterObjects",
    "FakeClock",
    "Faults",
    "LocalServer",
    "Recording",
    "Server",
    "SnapshotMismatchError",
    "compare",
    "control_plane",
    "record",
    "serving",
]

_HOMES = {
    "BlockingClock": "kcp_py.testing.blocking",
    "BlockingCluster": "kcp_py.testing.blocking",
    "BlockingSnapshots": "kcp_py.testing.blocking",
    "Cluster": "kcp_py.testing.clusters",
    "ClusterObjects": "kcp_py.testing.clusters",
    "FakeClock": "kcp_py.testing.clock",
    "Faults": "kcp_py.testing.faults",
    "LocalServer": "kcp_py.testing.local",
    "Recording": "kcp_py.testing.recording",
    "Server": "kcp_py.testing.blocking",
    "SnapshotMismatchError": "kcp_py.testing.recording",
    "compare": "kcp_py.testing.recording",
    "control_plane": "kcp_py.testing.local",
    "record": "kcp_py.testing.recording",
    "serving": "kcp_py.testing.blocking",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
