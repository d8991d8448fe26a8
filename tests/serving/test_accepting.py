"""Taking connections: what a silent, a greedy or a late client, or a system without descriptors, can stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import socket
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import uvloop
from uvicorn.server import ServerState

from kcp_py.serving.accepting import Acceptor
from kcp_py.serving.balance import ConnectionCounts, Turns
from kcp_py.serving.connection import Connection
from kcp_py.serving.connectionlimits import ConnectionLimits, ConnectionSlot
from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.server import listen
from kcp_py.serving.tls import ReloadingContext

UPGRADE = (
    b"GET /?watch=1 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
)


class Greeter(asyncio.Protocol):
    """Says hello, and leaves its slot."""

    slot: ConnectionSlot | None = None

    def connection_made(self, transport):
        transport.write(b"hello")

    def connection_lost(self, _error):
        assert self.slot is not None
        self.slot.release()


class Failing:
    """A listening socket that cannot accept at first; time and faults are all that is not real."""

    def __init__(self, listener, *errors):
        self._listener = listener
        self.errors = list(errors)

    def fileno(self):
        return self._listener.fileno()

    def accept(self):
        if self.errors:
            raise OSError(self.errors.pop(0), "fault")
        return self._listener.accept()


class Named:
    """A listening socket whose clients have the addresses that a test gives them."""

    def __init__(self, listener, *hosts):
        self._listener = listener
        self._hosts = list(hosts)

    def fileno(self):
        return self._listener.fileno()

    def accept(self):
        connection, (_, port) = self._listener.accept()
        return connection, (self._hosts.pop(0), port)


@contextmanager
def accepting(listener, limits, *, tls=None, handshake_timeout=60.0, turns=None):
    acceptor = Acceptor(listener, limits, tls=tls, handshake_timeout=handshake_timeout, turns=turns)
    acceptor.start(Greeter)
    try:
        yield acceptor
    finally:
        acceptor.close()


@pytest.fixture
def listener(options):
    with listen(options) as made:
        yield made


async def greeted(listener):
    """Connect, and read the greeting; empty where the connection is closed instead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    try:
        return await reader.read(5), writer
    except ConnectionError:
        return b"", writer


@pytest.mark.anyio
async def test_a_system_without_descriptors_is_waited_for(listener):
    """Accepting goes on when the system allows it again."""
    failing = Failing(listener, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)
    with accepting(failing, ConnectionLimits(total=10, per_address=0)):
        greeting, writer = await greeted(listener)
    assert greeting == b"hello"
    assert failing.errors == []
    writer.close()


@pytest.mark.anyio
async def test_a_client_that_left_is_passed_over(listener):
    """A connection that is gone before it is accepted costs nothing."""
    with accepting(Failing(listener, errno.ECONNABORTED), ConnectionLimits(total=10, per_address=0)):
        greeting, writer = await greeted(listener)
    assert greeting == b"hello"
    writer.close()


@pytest.mark.anyio
async def test_where_no_seat_is_free_clients_wait(listener):
    """The next connection is served as soon as another one ends."""
    with accepting(listener, ConnectionLimits(total=1, per_address=0)):
        greeting, first = await greeted(listener)
        assert greeting == b"hello"
        waiting = asyncio.create_task(greeted(listener))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        first.close()
        greeting, second = await waiting
    assert greeting == b"hello"
    second.close()


@pytest.mark.anyio
async def test_one_address_cannot_have_all(listener):
    """Its further connections are closed at once; another address is served."""
    with accepting(Named(listener, "192.0.2.1", "192.0.2.1", "192.0.2.2"), ConnectionLimits(total=10, per_address=1)):
        answers = [await greeted(listener) for _ in range(3)]
    assert [greeting for greeting, _ in answers] == [b"hello", b"", b"hello"]
    for _, writer in answers:
        writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "half a record", "no TLS"])
async def test_who_does_not_shake_hands_loses_the_seat(certified, client_context, said):
    """Before TLS is agreed on, a client holds its place for the handshake timeout at most."""
    with listen(certified) as listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])) as silent:
        silent.sendall(said)
        silent.setblocking(False)
        tls = ReloadingContext(certified).context
        with accepting(listener, ConnectionLimits(total=1, per_address=0), tls=tls, handshake_timeout=0.2):
            greeting = b""
            while greeting != b"hello":
                # On a busy machine the handshake of the good client can take longer than that, too.
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1], ssl=client_context(certified))
                    greeting = await reader.read(5)
                    writer.close()


@pytest.mark.anyio
async def test_the_handshake_has_a_timeout_of_its_own(certified, serving):
    """The server's setting is the one that counts, not the time for heads."""

    async def app(_scope, _receive, _send):
        """Is never asked."""

    options = dataclasses.replace(certified, tls_handshake_timeout=0.05, request_header_timeout=3600)
    async with serving(app, options, tls=ReloadingContext(certified).context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.anyio
async def test_closing_gives_up_open_handshakes(certified):
    """A silent client does not keep a server from stopping."""
    limits = ConnectionLimits(total=1, per_address=0)
    with listen(certified) as listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
        with accepting(listener, limits, tls=ReloadingContext(certified).context) as acceptor:
            while not limits.full:
                await asyncio.sleep(0)
        await acceptor.wait_closed()
    assert not limits.full


class Recorder(asyncio.Protocol):
    """Records what it is told, and runs a function when it is connected."""

    slot: ConnectionSlot | None = None

    def __init__(self, on_made):
        self.told = []
        self.lost = asyncio.Event()
        self._on_made = on_made

    def connection_made(self, _transport):
        self.told.append("made")
        self._on_made()

    def connection_lost(self, _error):
        self.told.append("lost")
        assert self.slot is not None
        self.slot.release()
        self.lost.set()


async def close_while_connecting(listener, *, tls, client_tls, turns):
    """Stop accepting some turns after a connection was accepted, or, with None, in the turn in which its protocol is connected.

    Returns:
        What each protocol was told.
    """
    limits = ConnectionLimits(total=1, per_address=0)
    acceptor = Acceptor(listener, limits, tls=tls, handshake_timeout=60)
    protocols = []

    def make_protocol():
        protocols.append(Recorder(acceptor.close if turns is None else lambda: None))
        return protocols[-1]

    async def client():
        with suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1], ssl=client_tls)
            assert await reader.read() == b""
            writer.close()

    acceptor.start(make_protocol)
    connecting = asyncio.create_task(client())
    if turns is not None:
        while not limits.full:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        acceptor.close()
    await asyncio.wait_for(connecting, 60)
    await acceptor.wait_closed()
    for protocol in protocols:
        if protocol.told:
            await asyncio.wait_for(protocol.lost.wait(), 30)
    assert not limits.full
    return [protocol.told for protocol in protocols if protocol.told]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("turns", [None, 0, 1, 2], ids=["connected", "0 turns", "1 turn", "2 turns"])
def test_what_is_connected_while_closing_is_told_of_its_end(options, new_loop, turns):
    """No protocol is left behind that counts as a connection for ever, and the client sees the end."""
    with listen(options) as listener, asyncio.Runner(loop_factory=new_loop) as runner:
        told = runner.run(close_while_connecting(listener, tls=None, client_tls=None, turns=turns))
    assert told in ([["made", "lost"]], [])
    assert told or turns is not None


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_is_connected_over_tls_while_closing_is_told_of_its_end(certified, client_context, new_loop, monkeypatch):
    """Stop accepting at the end of a handshake."""
    # The client of asyncio does not answer the end of TLS.
    monkeypatch.setattr("kcp_py.serving.accepting.TLS_END_SECONDS", 0.1)
    tls = ReloadingContext(certified).context
    with listen(certified) as listener, asyncio.Runner(loop_factory=new_loop) as runner:
        closing = close_while_connecting(listener, tls=tls, client_tls=client_context(certified), turns=None)
        assert runner.run(closing) == [["made", "lost"]]


@pytest.mark.anyio
async def test_a_connection_that_goes_on_over_websocket_keeps_its_seat(listener):
    """The slot changes hands with the connection, and becomes free when that ends."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    state: Any = ServerState()
    context = ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    limits = ConnectionLimits(total=1, per_address=0)
    acceptor = Acceptor(listener, limits, tls=None, handshake_timeout=60)
    acceptor.start(lambda: Connection(context))
    port = listener.getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UPGRADE)
    assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
    assert limits.full
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    acceptor.close()
    while state.tasks or limits.full:
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_a_connection_is_left_to_others_for_a_moment(listener):
    """A process that has more connections than another one waits, and accepts what the other one has not taken."""
    counts = ConnectionCounts(2)
    counts.record(1, 0)
    limits = ConnectionLimits(total=10, per_address=0)
    with accepting(listener, limits, turns=Turns(counts, 0)):
        greeted_by = [await greeted(listener) for _ in range(3)]
        assert [greeting for greeting, _ in greeted_by] == [b"hello"] * 3
        assert limits.taken == 3
        assert counts.delay(1, 3) == 0
    assert counts.delay(1, 9) == 0
    for _, writer in greeted_by:
        writer.close()
