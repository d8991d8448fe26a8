"""Listening, and ending in order."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import signal
import socket

import httpx
import pytest
import uvicorn

from kcp_py.controlplane import ControlPlane
from kcp_py.serving.http1 import closing
from kcp_py.serving.server import STARTUP_FAILED, ListenError, listen, serve
from kcp_py.serving.tls import ReloadingContext


def test_a_free_port_is_found(options):
    """Port 0 is replaced by a free one, which accepts connections at once."""
    with listen(options) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_port_in_use_is_refused(options):
    """The second of two servers on one port is told, at binding."""
    with listen(options) as listener:
        taken = dataclasses.replace(options, secure_port=listener.getsockname()[1])
        with pytest.raises(ListenError, match=r"^127\.0\.0\.1:\d+: the port is in use$"):
            listen(taken)


def test_an_address_of_another_machine_is_refused(options):
    """Only own addresses can be listened on."""
    with pytest.raises(ListenError, match=r"^192\.0\.2\.1:0: not an address of this machine$"):
        listen(dataclasses.replace(options, bind_address="192.0.2.1"))


@pytest.mark.skipif(not socket.has_ipv6, reason="the machine has no IPv6")
def test_ipv6(options):
    """An IPv6 address is listened on as well."""
    try:
        listener = listen(dataclasses.replace(options, bind_address="::1"))
    except ListenError:
        pytest.skip("the machine has no IPv6 loopback")
    with listener:
        socket.create_connection(("::1", listener.getsockname()[1])).close()


@pytest.mark.anyio
async def test_shutdown_is_announced_before_anything_closes(options, serving):
    """The hook is awaited while connections are still accepted and answered; then a stream that it ended is delivered whole."""
    stopping = asyncio.Event()
    answered = []

    async def app(scope, _receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/watch":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await stopping.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def request(path):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return reader, writer

    async def on_shutdown():
        reader, writer = await request(b"/")
        answered.append(await reader.read())
        writer.close()
        stopping.set()

    ports = []
    async with serving(app, options, on_shutdown=on_shutdown) as port:
        ports.append(port)
        watch, writer = await request(b"/watch")
        await watch.readuntil(b"first")
    assert b"last" in answered[0]
    assert (await watch.read()).endswith(b"0\r\n\r\n")
    writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
async def test_a_client_that_does_not_read_does_not_hold_a_stop_up(certified, client_context, serving, monkeypatch, secured):
    """Its connection is aborted long before the grace period ends, and the request on it ends."""
    monkeypatch.setattr(closing, "LINGER_SECONDS", 0.01)
    monkeypatch.setattr(closing, "UNREAD_SECONDS", 0.05)
    full = asyncio.Event()
    ended = asyncio.Event()

    async def app(scope, _receive, send):
        if scope["type"] != "http":
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                sending = asyncio.ensure_future(send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True}))
                await asyncio.wait([sending], timeout=0.2)
                if not sending.done():
                    full.set()
                await sending
                if scope["state"]["gone"].is_set():
                    return
        finally:
            ended.set()

    async def told(scope, receive, send):
        if scope["type"] == "http":
            scope["state"]["gone"] = gone = asyncio.Event()
            scope["state"]["on_disconnect"](gone.set)
        await app(scope, receive, send)

    options = dataclasses.replace(certified, shutdown_grace_period=3600)
    async with asyncio.timeout(30):
        async with serving(told, options, tls=ReloadingContext(certified).context if secured else None) as port:
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            _, writer = await asyncio.open_connection(
                sock=client,
                ssl=client_context(certified) if secured else None,
                server_hostname="127.0.0.1" if secured else None,
                limit=1024,
            )
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await full.wait()
        assert ended.is_set()
    writer.transport.abort()


@pytest.mark.anyio
async def test_readiness_fails_before_the_server_is_gone(options, serving):
    """While the stop is announced, `/readyz` fails for every client, new ones too; health stays."""
    options.root_directory.mkdir(exist_ok=True)
    options = dataclasses.replace(options, storage="memory")
    found = []

    async with ControlPlane(options) as control_plane, httpx.AsyncClient() as client:

        async def on_shutdown():
            assert (await client.get("/readyz")).status_code == 200
            control_plane.begin_shutdown()
            for path in ("/readyz", "/clusters/term/readyz", "/livez", "/healthz"):
                answer = await client.get(path)
                found.append((path, answer.status_code, "[-]shutdown failed: reason withheld" in answer.text))

        async with serving(control_plane.app, options, on_shutdown=on_shutdown) as port:
            client.base_url = f"http://127.0.0.1:{port}"
    assert found == [
        ("/readyz", 500, True),
        ("/clusters/term/readyz", 500, True),
        ("/livez", 200, False),
        ("/healthz", 200, False),
    ]


@pytest.mark.anyio
async def test_a_failing_hook_does_not_stop_the_stop(options, serving):
    """Whatever the hook raises, the server ends."""
    called = []

    def fail():
        called.append(True)
        raise RuntimeError("hook")

    async def app(_scope, _receive, _send):
        """Has no lifespan."""

    async with serving(app, options, on_shutdown=fail):
        pass
    assert called


@pytest.mark.anyio
async def test_a_stop_without_signals(options):
    """A program that serves among other things ends the server by itself, and no signal is handled meanwhile."""
    stop, ready = asyncio.Event(), asyncio.Event()
    stopping = []

    async def app(scope, _receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    before = signal.getsignal(signal.SIGTERM)
    listener = listen(options)
    port = listener.getsockname()[1]
    serving = asyncio.create_task(
        serve(app, listener, options, tls=None, on_shutdown=lambda: stopping.append(True), on_ready=ready.set, stop=stop)
    )
    await ready.wait()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200
    assert signal.getsignal(signal.SIGTERM) is before
    stop.set()
    await serving
    assert stopping == [True]


def test_uvicorn_has_what_is_used_of_it():
    """A release that changes what docs/adr/0019-http-without-inheritance.md lists is noticed here."""
    config = inspect.signature(uvicorn.Config).parameters
    assert config.keys() >= {
        "access_log",
        "app",
        "http",
        "interface",
        "lifespan",
        "log_config",
        "loop",
        "proxy_headers",
        "server_header",
        "timeout_graceful_shutdown",
        "ws",
    }
    methods = {
        "serve": ["self", "sockets"],
        "startup": ["self", "sockets"],
        "shutdown": ["self", "sockets"],
        "capture_signals": ["self"],
        "main_loop": ["self"],
        "on_tick": ["self", "counter"],
    }
    assert {name: [*inspect.signature(getattr(uvicorn.Server, name)).parameters] for name in methods} == methods
    assert {name for name, value in vars(uvicorn.Server).items() if callable(value)} == {
        "__init__",
        "_log_started_message",
        "_serve",
        "_wait_tasks_to_complete",
        "capture_signals",
        "handle_exit",
        "main_loop",
        "on_tick",
        "run",
        "serve",
        "shutdown",
        "startup",
    }
    server = uvicorn.Server(uvicorn.Config(lambda: None))
    assert vars(server).keys() == {"_captured_signals", "config", "force_exit", "last_notified", "server_state", "should_exit", "started"}
    assert vars(server.server_state).keys() == {"connections", "default_headers", "tasks", "total_requests"}


@pytest.mark.anyio
async def test_uvicorns_lifespan_has_what_is_used_of_it():
    """It says whether the application has started, and what it has put into the state of requests."""
    config = uvicorn.Config(lambda: None, lifespan="auto")
    config.load()
    lifespan = config.lifespan_class(config)
    assert lifespan.should_exit is False
    assert lifespan.state == {}
    assert callable(lifespan.startup)


@pytest.mark.anyio
async def test_a_lifespan_that_fails_ends_the_start(options):
    """The program exits with uvicorn's code, and nothing is served."""

    async def app(scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed"})

    listener = listen(options)
    with pytest.raises(SystemExit) as caught:
        await serve(app, listener, options, tls=None, on_shutdown=lambda: None, on_ready=lambda: None, stop=asyncio.Event())
    listener.close()
    assert caught.value.code == STARTUP_FAILED
