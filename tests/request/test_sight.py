"""The sights that do not depend on grants."""

from __future__ import annotations

from kcp_py.logicalcluster import ROOT
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.sight import EVERY_CLUSTER, NO_CLUSTER, is_current
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


def test_a_sight_is_current_where_the_same_is_decided_again() -> None:
    """All clusters are not none, although neither depends on the caller."""
    assert is_current(EVERY_CLUSTER, EVERY_CLUSTER)
    assert not is_current(EVERY_CLUSTER, NO_CLUSTER)
