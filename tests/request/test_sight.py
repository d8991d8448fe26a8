"""The sights that do not depend on grants."""

from __future__ import annotations

from kcp_py.logicalcluster import ROOT
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.sight import EVERY_CLUSTER, NO_CLUSTER
from kcp_py.request.user import LOOPBACK


def test_everything_and_nothing() -> None:
    """One sees and shows each cluster at each revision, the other none."""
    for sight, expected in ((EVERY_CLUSTER, True), (NO_CLUSTER, False)):
        assert (sight.unrestricted, sight.sees("a"), sight.sees("a", 7), sight.shows("a", 7)) == (expected,) * 4
    assert EVERY_CLUSTER.few() is None
    assert not NO_CLUSTER.few()


def test_a_request_sees_nothing_by_default() -> None:
    """A context that authorization has not decided about reads no cluster."""
    assert RequestContext("", ROOT, True, UNPARSED, LOOPBACK, [], {}).sight is NO_CLUSTER
