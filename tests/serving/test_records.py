"""Refused requests are not decrypted further, and others arrive whole, with real clients over TLS on both event loops."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kcp_py.serving.connection import Connection
from kcp_py.serving.http1.limits import DRAIN_BYTES
from kcp_py.serving.records import RECORD_BYTES
from tests.serving.tls_clients import BODY, CHUNK, EVENT_LOOPS, PIECE, SECONDS, Counted, answers, exchange, patient, post, serving_clients

__all__ = ["patient"]

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", EVENT_LOOPS)]

NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
UPGRADE = (
    b"GET /?watch=1 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)


@pytest.fixture
async def served(certified, serving, client_context):
    """The application, and a function that connects to it."""
    async with serving_clients(certified, serving, client_context(certified)) as found:
        yield found


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("parts", "most"),
    [
        pytest.param((post(b"/refuse", b"content-length: %d" % len(BODY)) + BODY,), RECORD_BYTES, id="a length, in one piece"),
        pytest.param((post(b"/refuse", b"content-length: %d" % len(BODY)), BODY), 2 * RECORD_BYTES, id="a length, head first"),
        pytest.param(
            (post(b"/refuse", b"transfer-encoding: chunked") + CHUNK * 40 + b"0\r\n\r\n",), 2 * RECORD_BYTES, id="chunks, in one piece"
        ),
        pytest.param(
            (post(b"/refuse", b"transfer-encoding: chunked"), CHUNK * 40 + b"0\r\n\r\n"),
            DRAIN_BYTES + 2 * RECORD_BYTES,
            id="chunks, head first",
        ),
    ],
)
async def test_a_body_that_is_not_wanted_is_not_decrypted(served, parts, most):
    """Of a large body of a request that is refused for its head, little is decrypted, and a client that sends all of it has its answer."""
    _, connect = served
    answer = await asyncio.to_thread(exchange, connect, *parts, last=b"no")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"no")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert 0 < Counted.decrypted <= most


@pytest.mark.parametrize("piece", [1000, 70_000, len(BODY)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_wanted_arrives_whole(served, piece, chunked):
    """However it is cut into records, and the request behind it, too."""
    server, connect = served
    pieces = [BODY[start : start + piece] for start in range(0, len(BODY), piece)]
    if chunked:
        parts = [post(b"/", b"transfer-encoding: chunked"), *(b"%x\r\n%s\r\n" % (len(part), part) for part in pieces), b"0\r\n\r\n" + NEXT]
    else:
        parts = [post(b"/", b"content-length: %d" % len(BODY)), *pieces, NEXT]
    answer = await asyncio.to_thread(exchange, connect, *parts)
    assert b"\r\n\r\n%d cdefHTTP/1.1 200 " % len(BODY) in answer
    assert answer.endswith(b"\r\n\r\n0 ")
    assert server.paths == ["/", "/next"]


async def test_pipelined_requests_are_all_answered(served):
    """Of many requests in one record, and many records in one packet, none is left lying."""
    server, connect = served
    requests = [post(b"/%d" % number, b"content-length: 5000") + b"x" * 5000 for number in range(200)]
    answer = await asyncio.to_thread(exchange, connect, b"".join(requests) + NEXT)
    assert answer.count(b"\r\n\r\n5000 xxxx") == 200
    assert server.paths == [*(f"/{number}" for number in range(200)), "/next"]


async def test_a_body_waits_for_100_continue(served):
    """The client sends it when it is asked for."""
    _, connect = served

    def talk():
        with connect() as connection:
            connection.sendall(post(b"/", b"content-length: %d" % len(BODY), b"expect: 100-continue", b"connection: close"))
            first = connection.recv(PIECE)
            connection.sendall(BODY)
            return first, answers(connection)

    first, answer = await asyncio.to_thread(talk)
    assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.endswith(b"%d cdef" % len(BODY))


async def test_a_connection_is_freed_with_its_end(served):
    """By its last reference, with what it has received."""
    server, connect = served
    gc.collect()
    gc.disable()
    try:
        assert (await asyncio.to_thread(exchange, connect, post(b"/released", b"connection: close"))).endswith(b"0 ")
        (connection,) = server.connections
        async with asyncio.timeout(SECONDS):
            while connection() is not None:
                assert isinstance(connection(), Connection)
                await asyncio.sleep(0)
    finally:
        gc.enable()


async def test_a_websocket_holds_no_http_connection(served):
    """What the HTTP protocol has received is freed once another protocol has the connection."""
    server, connect = served
    with await asyncio.to_thread(connect) as client:
        gc.collect()
        gc.disable()
        try:
            client.sendall(UPGRADE)
            async with asyncio.timeout(SECONDS):
                await server.connected.wait()
            assert not [found for found in gc.get_objects() if isinstance(found, Connection)]
        finally:
            gc.enable()
            server.release.set()
        assert (await asyncio.to_thread(client.recv, PIECE)).startswith(b"HTTP/1.1 403 ")
