"""Processes that accept from one socket share the connections."""

from __future__ import annotations

import pytest

from kcp_py.serving.balance import DELAY, ConnectionCounts, Turns
from tests.forks import forked


@pytest.mark.parametrize(
    ("others", "own", "delay"),
    [
        ((3, 3), 3, 0.0),
        ((3, 4), 3, 0.0),
        ((3, 2), 3, DELAY),
        ((2, 2), 3, DELAY),
        ((4, None), 3, 0.0),
        ((2, None), 3, DELAY),
        ((None, None), 3, 0.0),
    ],
    ids=["equal", "fewest", "one has fewer", "both have fewer", "more than this one", "fewer, one does not accept", "alone"],
)
def test_the_process_with_the_fewest_connections_is_next(others: tuple[int | None, ...], own: int, delay: float) -> None:
    """A process leaves a connection to others where one of those that accept has fewer."""
    counts = ConnectionCounts(3)
    for number, connections in enumerate(others):
        if connections is not None:
            counts.record(number, connections)
    assert Turns(counts, 2).delay(own) == delay


def test_a_process_that_has_left_is_not_waited_for() -> None:
    """A process that accepts no more leaves no connection to others, and none is left to it."""
    counts = ConnectionCounts(2)
    one, two = Turns(counts, 0), Turns(counts, 1)
    one.record(0)
    assert two.delay(1) == DELAY
    one.leave()
    assert two.delay(1) == 0


_PROGRAM = """
import os
from kcp_py.serving.balance import DELAY, ConnectionCounts

def main():
    counts = ConnectionCounts(2)
    child = os.fork()
    if child == 0:
        counts.record(1, 0)
        os._exit(0)
    os.waitpid(child, 0)
    assert counts.delay(0, 1) == DELAY
"""


def test_forked_processes_share_the_counts() -> None:
    """The count that a forked process records is seen by its parent."""
    with forked(_PROGRAM) as run:
        assert run() == 0
