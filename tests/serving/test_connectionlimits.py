"""How many connections there may be."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.serving.addresses import client_of
from kcp_py.serving.connectionlimits import AUTOMATIC, ConnectionLimits, connections_that_fit


@pytest.mark.parametrize(
    ("host", "client"),
    [
        pytest.param("192.0.2.1", "192.0.2.1", id="IPv4"),
        pytest.param("::ffff:192.0.2.1", "192.0.2.1", id="IPv4 in IPv6"),
        pytest.param("2001:db8:1:2:3:4:5:6", "20010db800010002", id="IPv6"),
        pytest.param("2001:db8:1:2::9", "20010db800010002", id="the same network"),
        pytest.param("fe80::1%eth0", "fe80000000000000", id="IPv6 with a zone"),
        pytest.param("127.0.0.1", "", id="loopback"),
        pytest.param("127.9.9.9", "", id="all of loopback"),
        pytest.param("::1", "", id="loopback of IPv6"),
        pytest.param("::ffff:127.0.0.1", "", id="loopback in IPv6"),
    ],
)
def test_clients(host, client):
    """Connections are counted by the address that a client cannot change at will."""
    assert client_of(host) == client


@pytest.mark.parametrize(
    ("per_address", "host", "granted"),
    [
        pytest.param(3, "192.0.2.1", 3, id="limit"),
        pytest.param(AUTOMATIC, "192.0.2.1", 5, id="half"),
        pytest.param(0, "192.0.2.1", 10, id="no limit"),
        pytest.param(3, "127.0.0.1", 10, id="loopback"),
    ],
)
def test_one_address_has_a_limit(per_address, host, granted):
    """Others are let in all the same, and a connection that ends makes room for another of the same address."""
    limits = ConnectionLimits(total=10, per_address=per_address)
    mine = [slot for _ in range(granted) if (slot := limits.acquire(host))]
    assert len(mine) == granted
    if granted < 10:
        assert limits.acquire(host) is None
        assert limits.acquire("192.0.2.2") is not None
    mine[0].release()
    assert limits.acquire(host) is not None


def test_all_together_have_a_limit():
    """The first slot that becomes free is reported, once."""
    told = []
    limits = ConnectionLimits(total=2, per_address=0)
    limits.on_free = lambda: told.append(limits.full)
    taken = [slot for number in "12" if (slot := limits.acquire(f"192.0.2.{number}"))]
    assert limits.full
    for slot in taken:
        slot.release()
        slot.release()
    assert told == [False]


def test_room_is_what_is_left_of_the_descriptors():
    """Each open file takes the place of a connection, and some are kept for files still to be opened."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = connections_that_fit()
    with Path("/dev/null").open() as _one, Path("/dev/null").open() as _two:
        assert connections_that_fit() == before - 2
    assert 0 < before < soft


def test_connections_of_all_processes_count():
    """A stated limit of an address is that of the server; one that follows the open files is that of the process, which has them."""
    shared = SharedCounts(2)
    first, second = (ConnectionLimits(total=10, per_address=3, counts=shared.of(number)) for number in range(2))
    slots = [first.acquire("192.0.2.1"), first.acquire("192.0.2.1"), second.acquire("192.0.2.1")]
    assert None not in slots
    assert first.acquire("192.0.2.1") is second.acquire("192.0.2.1") is None
    assert second.acquire("192.0.2.2") is not None
    assert slots[0] is not None
    slots[0].release()
    assert second.acquire("192.0.2.1") is not None
    automatic = [ConnectionLimits(total=4, per_address=AUTOMATIC, counts=shared.of(number)) for number in range(2)]
    for limits in automatic:
        assert [limits.acquire("192.0.2.9") is not None for _ in range(3)] == [True, True, False]
