"""Bytes that the application never reads: the rest of refused requests, trailers, and floods of chunks."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.serving.http1.closing import LINGER_SECONDS
from kcp_py.serving.http1.limits import DRAIN_BYTES, DRAIN_SECONDS, UNREAD_BYTES
from tests.eventloop import until_idle
from tests.serving.edge import CHUNKED, IDLE_SECONDS, NEXT, REFUSED

CLOSES = b"\r\nconnection: close\r\n"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("framing", "rest"),
    [
        pytest.param(b"content-length: 10\r\n\r\n", (b"01234", b"56789"), id="a length"),
        pytest.param(b"transfer-encoding: chunked\r\n\r\n", (b"5\r\n0123", b"4\r\n0\r\n", b"a: b\r\n\r\n"), id="chunks"),
    ],
)
async def test_a_short_rest_leaves_the_connection_open(edge, framing, rest):
    """The rest of a request that was answered early is read and dropped; the next request follows it."""
    await edge.send(REFUSED + framing, *rest[:-1], rest[-1] + NEXT)
    assert [path for _, path, _, _ in edge.seen] == ["/refuse", "/next"]
    assert CLOSES not in edge.wire.written
    assert not edge.wire.ended
    edge.clock.advance(IDLE_SECONDS - 1)
    assert not edge.wire.closed
    edge.clock.advance(1)
    assert edge.wire.closed


@pytest.mark.anyio
@pytest.mark.parametrize(
    "framing",
    [
        pytest.param(b"content-length: %d\r\n\r\n" % (DRAIN_BYTES + 1), id="a long body"),
        pytest.param(b"content-length: 10\r\nexpect: 100-continue\r\n\r\n", id="a body that was not asked for"),
        pytest.param(b"content-length: 10\r\nconnection: close\r\n\r\n", id="the client wants it so"),
    ],
)
async def test_a_rest_that_is_not_read_ends_the_connection(edge, framing):
    """The answer says that the connection ends; the client has time to read it, and nothing more is read."""
    await edge.send(REFUSED + framing)
    assert edge.wire.written.count(CLOSES) == 1
    assert edge.wire.written.endswith(b"ok")
    assert edge.wire.ended
    assert edge.wire.paused
    assert not edge.wire.closed
    edge.connection.data_received(b"x" * 10 + NEXT)
    await until_idle()
    edge.clock.advance(LINGER_SECONDS)
    assert edge.wire.closed
    assert [path for _, path, _, _ in edge.seen] == ["/refuse"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((b"1000\r\n" + b"x" * 4096 + b"\r\n",) * 1000, id="payload"),
        pytest.param((b"0\r\n", *(b"a: " + b"x" * 4000 + b"\r\n",) * 1000), id="trailers"),
        pytest.param((b"1;", *(b"x" * 4000,) * 1000), id="an extension"),
    ],
)
async def test_of_a_refused_request_little_is_read(edge, pieces):
    """A chunked request that does not end behind its answer is read to a limit; then the connection ends."""
    await edge.send(REFUSED + b"transfer-encoding: chunked\r\n\r\n")
    read = 0
    for piece in pieces:
        if edge.wire.paused:
            break
        edge.connection.data_received(piece)
        read += len(piece)
        await until_idle()
    assert DRAIN_BYTES - 5000 < read < DRAIN_BYTES + 10_000
    assert edge.wire.ended
    edge.clock.advance(LINGER_SECONDS)
    assert edge.wire.closed
    assert edge.wire.written.count(b"HTTP/1.1 ") == 1


@pytest.mark.anyio
async def test_a_refused_request_must_end_in_time(edge):
    """A rest that comes byte by byte ends the connection."""
    await edge.send(REFUSED + b"content-length: 1000\r\n\r\n")
    for _ in range(int(DRAIN_SECONDS) - 1):
        edge.clock.advance(1)
        await edge.send(b"x")
    assert not edge.wire.ended
    edge.clock.advance(1)
    assert edge.wire.ended
    edge.clock.advance(LINGER_SECONDS)
    assert edge.wire.closed


@pytest.mark.anyio
async def test_a_chunked_body_is_not_parsed_before_it_is_wanted(edge):
    """Of a request that is refused for its head, nothing is read behind the first packet; it is parsed once the application asks."""
    await edge.send(CHUNKED.replace(b"/ ", b"/wait ") + b"4\r\nbody\r\n", b"0\r\n\r\n")
    assert edge.wire.paused
    assert edge.connection._cycle._body == b""
    edge.release.set()
    await until_idle()
    assert not edge.wire.paused
    await edge.send(b"0\r\n\r\n")
    assert [body for *_, body in edge.seen] == [b"body"]


@pytest.mark.anyio
async def test_long_trailers_wait_for_a_turn(edge):
    """Fields that are dropped are parsed for one connection at a time, however much has been received; short ones do not wait."""
    await edge.send(CHUNKED + b"0\r\na: b\r\n\r\n")
    assert edge.turns == 0
    await edge.send(CHUNKED + b"0\r\n" + b"a: b\r\n" * 1200 + b"\r\n")
    assert edge.turns > 0
    assert len(edge.seen) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "closed"), [(1000, False), (UNREAD_BYTES + 1, True)])
async def test_a_chunked_body_that_is_not_wanted_ends_the_connection(edge, size, closed):
    """One that has come with the head of a refused request is not parsed where it is long: the answer says that the connection ends."""
    await edge.send(REFUSED + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n")
    assert edge.wire.written.endswith(b"ok")
    assert (CLOSES in edge.wire.written) is closed
    assert edge.wire.ended is closed


@pytest.mark.anyio
async def test_a_flood_of_chunks_takes_turns(edge):
    """One read with many small chunks is parsed over several turns of the event loop, and nothing more is read meanwhile."""
    count = 40_000
    flood = b"1\r\na\r\n" * count
    edge.connection.data_received(CHUNKED + flood)
    assert edge.wire.paused
    turns = 0
    while edge.wire.paused:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1
    await edge.send(b"0\r\n\r\n")
    assert edge.seen[0][3] == b"a" * count


@pytest.mark.anyio
async def test_http_1_0_does_not_wait_for_100_continue(edge):
    """The expectation is ignored there (RFC 9110, 10.1.1)."""
    await edge.send(b"POST / HTTP/1.0\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n", b"a")
    assert edge.seen[0][3] == b"a"
    assert edge.wire.written.startswith(b"HTTP/1.1 200 ")
