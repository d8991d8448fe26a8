"""The end of a connection: which steps follow at which times, and what ends it at once."""

from __future__ import annotations

import math

import pytest

from kcp_py.serving.http1.closing import (
    DISCARD_SECONDS,
    DISCARDED_BYTES,
    LINGER_SECONDS,
    UNREAD_SECONDS,
    Action,
    Closing,
    StallDetector,
)


def expire(closing, *, unsent=0, closed=False, unread=False):
    """The action at the deadline, the deadline, and the next one."""
    now = closing.deadline
    action = closing.expired(now, unsent=unsent, closing=closed, unread=unread)
    return action, now, closing.deadline


def test_nothing_happens_before_the_end():
    """A connection that goes on has no deadline."""
    assert Closing().deadline is None


def test_a_client_has_time_to_read():
    """The transport is closed behind the time to linger, and aborted once nothing is left to send."""
    closing = Closing()
    closing.linger(10)
    assert expire(closing) == (Action.CLOSE, 10 + LINGER_SECONDS, 10.51)
    assert expire(closing, unsent=5, closed=True)[0] is Action.WAIT
    action, now, following = expire(closing, closed=True)
    assert (action, now, following) == (Action.ABORT, pytest.approx(11.01), None)


def test_a_client_that_reads_slowly_is_waited_for():
    """As long as it reads, up to ten seconds behind the close."""
    closing = Closing()
    closing.linger(0)
    expire(closing)
    actions: list[Action] = []
    while closing.deadline is not None:
        actions.append(expire(closing, unsent=1000 - len(actions), closed=True)[0])
    assert actions == [Action.WAIT] * 20 + [Action.ABORT]


def test_bytes_that_are_not_decrypted_are_thrown_away():
    """Over TLS, until the client ends, sends too much or takes too long."""
    closing = Closing()
    closing.linger(0)
    assert expire(closing, unread=True)[0] is Action.DISCARD
    assert closing.discarded(1000, LINGER_SECONDS) is Action.WAIT
    assert expire(closing, unread=True)[0] is Action.DISCARD
    assert closing.discarded(None, 1.0) is Action.ABORT
    assert closing.deadline is None


@pytest.mark.parametrize(
    ("count", "now"),
    [
        pytest.param(DISCARDED_BYTES, LINGER_SECONDS, id="too much"),
        pytest.param(0, LINGER_SECONDS + DISCARD_SECONDS, id="too late"),
    ],
)
def test_what_is_thrown_away_has_an_end(count, now):
    """The connection is aborted, whatever the client goes on to send."""
    closing = Closing()
    closing.linger(0)
    expire(closing, unread=True)
    assert closing.discarded(count, now) is Action.ABORT


def test_a_server_that_stops_waits_for_responses_in_progress():
    """While the transport is open, the deadline comes again and again; a client that reads nothing is cut off."""
    closing = Closing()
    closing.flush(0)
    assert [expire(closing)[0] for _ in range(50)] == [Action.WAIT] * 50
    looks = math.ceil(UNREAD_SECONDS / LINGER_SECONDS)
    assert [expire(closing, unsent=100)[0] for _ in range(looks + 1)] == [Action.WAIT] * looks + [Action.ABORT]


def test_a_stop_does_not_prolong_an_end():
    """A connection that lingers already goes on with that."""
    closing = Closing()
    closing.linger(0)
    closing.flush(0.4)
    assert closing.deadline == LINGER_SECONDS


def test_a_connection_that_is_gone_has_no_end_to_wait_for():
    """The deadline goes with it."""
    closing = Closing()
    closing.linger(0)
    closing.end()
    assert closing.deadline is None


def test_only_clients_that_read_nothing_for_long_are_stalled():
    """Each byte that is read gives the client its time anew; where nothing waits there is nothing to read."""
    looks = math.ceil(UNREAD_SECONDS / LINGER_SECONDS)
    stall = StallDetector()
    assert [stall.is_stalled(100) for _ in range(looks + 1)] == [False] * looks + [True]
    stall = StallDetector()
    assert not any(stall.is_stalled(0) for _ in range(3 * looks))
    assert not any(stall.is_stalled(10_000 - number // 2) for number in range(3 * looks))
