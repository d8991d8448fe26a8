"""Processes share tables, from which those that have ended are removed."""

from __future__ import annotations

from kcp_py.cli.workers.child import process_of
from kcp_py.cli.workers.sharing import Sharing
from kcp_py.serving.balance import DELAY
from kcp_py.storage.shared import SharedRevisions


def test_a_process_that_has_ended_counts_nothing() -> None:
    """Its connections and its numbers are removed, those of the others stay."""
    sharing = Sharing(3)
    for number in range(3):
        sharing.connections.record(number, number)
        sharing.counts.of(number).set(1, 10**number)
    assert sharing.connections.delay(1, 1) == DELAY
    sharing.ended(process_of(0))
    assert sharing.connections.delay(1, 1) == 0
    assert sharing.counts.of(0).total(1) == 110
    assert sharing.counts.of(1).total(1) == 100


def test_there_is_room_for_revisions() -> None:
    """Revisions of one process are those of another one."""
    sharing = Sharing(2)
    SharedRevisions(sharing.revisions).committed(7)
    assert SharedRevisions(sharing.revisions).acknowledged == 7
