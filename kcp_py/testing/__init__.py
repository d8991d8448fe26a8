"""Support for tests of users.

Belongs here: code for tests against this program or of its extensions: control planes and servers for tests, fixtures, suites for storage
drivers. Does not belong here: the tests of the program itself. Only the command line imports this package, for `kcp-py test-server`, and
only the modules that need them import pytest and hypothesis. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcp_py.testing.blocking import BlockingCluster, Server, serving
    from kcp_py.testing.clusters import Cluster, ClusterObjects
    from kcp_py.testing.local import LocalServer, control_plane

__all__ = ["BlockingCluster", "Cluster", "ClusterObjects", "LocalServer", "Server", "control_plane", "serving"]

_HOMES = {
    "BlockingCluster": "kcp_py.testing.blocking",
    "Cluster": "kcp_py.testing.clusters",
    "ClusterObjects": "kcp_py.testing.clusters",
    "LocalServer": "kcp_py.testing.local",
    "Server": "kcp_py.testing.blocking",
    "control_plane": "kcp_py.testing.local",
    "serving": "kcp_py.testing.blocking",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
