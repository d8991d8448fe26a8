"""How much a client can still send behind the answer to a request that was refused, with real clients over TLS on both event loops."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from kcp_py.serving.http1.closing import DISCARDED_BYTES
from kcp_py.serving.http1.limits import DRAIN_BYTES
from kcp_py.serving.records import MOST_BYTES, RECORD_BYTES
from tests.serving.tls_clients import BODY, CHUNK, EVENT_LOOPS, Counted, answers, patient, post, serving_clients

__all__ = ["patient"]

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", EVENT_LOOPS)]


@pytest.fixture
async def served(certified, serving, client_context):
    """The application, and a function that connects to it."""
    async with serving_clients(certified, serving, client_context(certified)) as found:
        yield found


@pytest.mark.usefixtures("patient")
async def test_a_client_that_does_not_expect_an_early_answer_has_it(served):
    """One that gives up where it cannot send all of its request can send it."""
    _, connect = served

    def send_then_read():
        with connect() as connection:
            connection.sendall(post(b"/refuse", b"content-length: %d" % len(BODY * 3)))
            connection.sendall(BODY * 3)
            return answers(connection, last=b"no")

    answer = await asyncio.to_thread(send_then_read)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"no")
    assert Counted.decrypted <= 2 * RECORD_BYTES


async def test_a_client_that_sends_on_and_on_is_cut_off(served):
    """Discarding received bytes has a limit, too."""
    _, connect = served

    def pour():
        with connect() as connection:
            connection.sendall(post(b"/refuse", b"transfer-encoding: chunked"))
            for sent in range(2000):
                try:
                    connection.sendall(CHUNK)
                except (ConnectionError, ssl.SSLError):
                    return sent * len(CHUNK)
        return None

    sent = await asyncio.to_thread(pour)
    # The rest lies in the buffers of the two systems.
    assert sent is not None
    assert sent < DISCARDED_BYTES + 32 * 1024 * 1024
    assert Counted.decrypted <= DRAIN_BYTES + 2 * RECORD_BYTES


async def test_a_client_that_sends_on_behind_the_end_is_cut_off(served):
    """The answer said that the connection ends, at the client's own wish: what it sends then is not decrypted for long."""
    _, connect = served

    def pour():
        with connect() as connection:
            connection.sendall(b"GET /refuse HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            for sent in range(2000):
                try:
                    connection.sendall(CHUNK)
                except (ConnectionError, ssl.SSLError):
                    return sent
        return None

    assert await asyncio.to_thread(pour) is not None
    assert Counted.decrypted <= MOST_BYTES + 2 * RECORD_BYTES
