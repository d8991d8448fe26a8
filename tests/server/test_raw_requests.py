"""Raw bytes against a real server: what the ASGI level cannot show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authn.tokens import BearerTokens
from kcp_py.authz import AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from kcp_py.options import Options
from kcp_py.server.chain import ChainSettings, create_asgi_app
from kcp_py.server.exchange import Exchange
from kcp_py.server.pages.fixed import create_fixed_pages
from kcp_py.server.pages.health import HealthChecks
from kcp_py.serving.server import listen, serve
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry

pytestmark = pytest.mark.anyio

AUTH = b"Authorization: Bearer t\r\n"
HOST = b"Host: localhost\r\n"


class Server:
    """A real server whose tree answers with the cluster and the path that it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.gone = asyncio.Event()
        self.streaming = asyncio.Event()
        self.port = 0

    async def tree(self, exchange: Exchange) -> None:
        if exchange.info.verb == "watch":
            exchange.on_disconnect(self.gone.set)
            await exchange.start_stream()
            await exchange.send_chunk(b"{}\n")
            self.streaming.set()
            await self.gone.wait()
            return
        body = await exchange.read_body(1000) if exchange.method == "POST" else b""
        self.seen.append((str(exchange.context.cluster), exchange.context.info.path))
        await exchange.respond(200, orjson.dumps([str(exchange.context.cluster), exchange.context.info.path, len(body)]))

    async def talk(self, *pieces: bytes) -> list[tuple[int, bytes]]:
        """Send raw bytes; return code and body of every response until the connection ends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            received = await reader.read()
        finally:
            writer.close()
        return _responses(received)


def _responses(received: bytes) -> list[tuple[int, bytes]]:
    found = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(headers.get(b"content-length", b"0"))
        found.append((int(lines[0].split()[1]), received[:length]))
        received = received[length:]
    return found


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    server = Server()
    registry = MetricsRegistry()
    settings = ChainSettings(
        authenticator=BearerTokens(StaticTokens(parse_tokens("t,admin,1,system:masters", "tokens")), ()),
        authorizer=AuthorizerUnion(AlwaysAllowPaths(), PrivilegedGroups()),
        metrics=RequestMetrics(registry),
    )
    app = create_asgi_app(settings, resources=server.tree, pages=create_fixed_pages(checks=HealthChecks(), registry=registry))
    options = Options(secure_port=0, plain_http=True, shutdown_grace_period=1, max_request_header_bytes=1 << 20)
    listener = listen(options)
    server.port = listener.getsockname()[1]
    ready, stop = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(serve(app, listener, options, tls=None, on_shutdown=lambda: None, on_ready=ready.set, stop=stop))
    await ready.wait()
    try:
        yield server
    finally:
        stop.set()
        await running


def request(target: bytes, *lines: bytes, method: bytes = b"GET", body: bytes = b"") -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\n" + HOST + AUTH + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


@pytest.mark.parametrize("method", [b"FOO", b"get", b"CONNECT", b"TRACE", b"M-SEARCH", b"WATCH", b"!#$%'*+-.^_`|~"])
async def test_any_method_reaches_the_filters(method: bytes) -> None:
    """Health pages answer all methods, other pages 405; a caller without credentials is refused by authorization, and none as malformed."""
    async with running() as server:
        targets = (b"/healthz", b"/version", b"/nosuch")
        answers = await server.talk(*(request(target, method=method) for target in targets))
        assert [code for code, _ in answers] == [200, 405, 404]
        ((code, body),) = await server.talk(request(b"/nosuch", method=method).replace(AUTH, b""))
        assert (code, orjson.loads(body)["message"]) == (
            403,
            f'forbidden: User "system:anonymous" cannot {method.decode().lower()} path "/nosuch"',
        )


async def test_ordinary() -> None:
    """A request and one more on the same connection."""
    async with running() as server:
        answers = await server.talk(request(b"/clusters/a/api/v1/pods"), request(b"/api/v1/pods"))
        assert [(code, orjson.loads(body)[:2]) for code, body in answers] == [(200, ["a", "/api/v1/pods"]), (200, ["root", "/api/v1/pods"])]


@pytest.mark.parametrize(
    ("target", "code", "seen"),
    [
        pytest.param(b"http://evil.example/clusters/a/api/v1/pods", 200, ("a", "/api/v1/pods"), id="absolute form: the host has no say"),
        pytest.param(b"http://a.example/api/v1/pods", 200, ("root", "/api/v1/pods"), id="absolute form without a cluster"),
        pytest.param(b"http://a.example", 400, None, id="absolute form without a path"),
        pytest.param(b"http://a.example?watch=1", 400, None, id="absolute form with nothing but a query"),
        pytest.param(b"/clusters/a/../b/api/v1/pods", 400, None, id="dot segment"),
        pytest.param(b"/clusters/a/%2e%2e/b/api/v1/pods", 400, None, id="encoded dot segment"),
        pytest.param(b"/clusters/a%2fb/api/v1/pods", 400, None, id="encoded slash"),
        pytest.param(b"/clusters/%252a/api/v1/pods", 400, None, id="wildcard encoded twice"),
        pytest.param(b"//clusters/a/api/v1/pods", 400, None, id="double slash"),
        pytest.param(b"/clusters/a;b/api/v1/pods", 400, None, id="parameter"),
        pytest.param(b"/clusters/a\\b/api/v1/pods", 400, None, id="backslash"),
        pytest.param(b"/clusters/a/api/v1/pods#/clusters/b", 400, None, id="fragment"),
        pytest.param(b"/clusters/a/api/v1/pods?/clusters/b/api", 200, ("a", "/api/v1/pods"), id="query"),
        pytest.param(b"/clusters/a/api/v1/pods\x00", 400, None, id="NUL"),
        pytest.param(b"/clusters/\xc3\xa9/api", 400, None, id="raw bytes"),
        pytest.param(b"*", 400, None, id="asterisk form"),
        pytest.param(b"clusters/a/api", 400, None, id="no slash"),
        pytest.param(b"", 400, None, id="no target"),
    ],
)
async def test_targets(target: bytes, code: int, seen: tuple[str, str] | None) -> None:
    """Whatever stands in the request line, it is refused or goes to the cluster that stands there."""
    async with running() as server:
        answers = await server.talk(request(target))
        assert [answer[0] for answer in answers] == [code]
        assert server.seen == ([] if seen is None else [seen])


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        pytest.param([b"Host: b"], {200, 400}, id="second host"),
        pytest.param([AUTH.strip()], {401}, id="second authorization"),
        pytest.param([b"X-Kubernetes-Cluster: b", b"X-Kubernetes-Cluster: b"], {400}, id="cluster header twice"),
        pytest.param([b"X-Kubernetes-Cluster: b"], {400}, id="cluster header against the path"),
        pytest.param([b"X-Kubernetes-Cluster : b"], {400}, id="space after a header's name"),
        pytest.param([b"X_Kubernetes_Cluster: b"], {200}, id="underscores are another header"),
        pytest.param([b"X-A: b\r\n X-Kubernetes-Cluster: b"], {200, 400}, id="folded header"),
        pytest.param([b"Connection: keep-alive, Authorization"], {400}, id="connection names authorization"),
        pytest.param([b"Impersonate-User: bob"], {403}, id="impersonation"),
        pytest.param([b"X-Forwarded-Host: b", b"X-Forwarded-Prefix: /clusters/b"], {200}, id="forwarded headers"),
        pytest.param([b"X-A: \x00"], {400}, id="NUL in a header"),
    ],
)
async def test_headers(lines: list[bytes], codes: set[int]) -> None:
    """No header takes a request to another cluster than its path."""
    async with running() as server:
        answers = await server.talk(request(b"/clusters/a/api/v1/pods", *lines))
        assert len(answers) == 1
        assert answers[0][0] in codes
        assert set(server.seen) <= {("a", "/api/v1/pods")}


SMUGGLED = request(b"/clusters/b/api/v1/secrets")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"Content-Length: 4", b"Transfer-Encoding: chunked"], id="CL and TE"),
        pytest.param([b"Transfer-Encoding: chunked", b"Content-Length: 4"], id="TE and CL"),
        pytest.param([b"Content-Length: 4", b"Content-Length: 5"], id="two lengths"),
        pytest.param([b"Content-Length: 0, 5"], id="list of lengths"),
        pytest.param([b"Content-Length: +4"], id="signed length"),
        pytest.param([b"Content-Length: 0x4"], id="hexadecimal length"),
        pytest.param([b"Content-Length: -1"], id="negative length"),
        pytest.param([b"Transfer-Encoding: xchunked"], id="unknown coding"),
        pytest.param([b"Transfer-Encoding: chunked, identity"], id="chunked is not last"),
        pytest.param([b"Transfer-Encoding : chunked", b"Content-Length: 4"], id="space before the colon"),
    ],
)
async def test_smuggling(lines: list[bytes]) -> None:
    """A request whose end is ambiguous is refused together with whatever follows it on the connection."""
    async with running() as server:
        answers = await server.talk(request(b"/clusters/a/api/v1/pods", *lines, method=b"POST", body=b"0\r\n\r\n" + SMUGGLED))
        assert ("b", "/api/v1/secrets") not in server.seen
        assert all(code in {400, 413} for code, _ in answers[-1:])


async def test_bare_line_feeds_in_chunks() -> None:
    """A chunk that ends in a bare line feed ends the connection."""
    async with running() as server:
        body = b"5\nhello\n0\n\n" + SMUGGLED
        await server.talk(request(b"/clusters/a/api/v1/pods", b"Transfer-Encoding: chunked", method=b"POST", body=body))
        assert ("b", "/api/v1/secrets") not in server.seen


async def test_body_limits() -> None:
    """Bodies are limited, declared or not, and the server lives on."""
    async with running() as server:
        declared = await server.talk(request(b"/clusters/a/api/v1/pods", b"Content-Length: 1001", method=b"POST"))
        assert declared[0][0] == 413
        chunk = b"200\r\n" + b"x" * 512 + b"\r\n"
        chunked = await server.talk(
            request(b"/clusters/a/api/v1/pods", b"Transfer-Encoding: chunked", method=b"POST"), chunk, chunk, b"0\r\n\r\n"
        )
        assert chunked[0][0] == 413
        fine = await server.talk(request(b"/clusters/a/api/v1/pods", b"Content-Length: 5", method=b"POST", body=b"hello"))
        assert orjson.loads(fine[0][1])[2] == 5


async def test_half_a_body() -> None:
    """A client that leaves within its body is not answered and leaves nothing behind."""
    async with running() as server:
        assert await server.talk(request(b"/clusters/a/api/v1/pods", b"Content-Length: 100", method=b"POST", body=b"half")) == []
        assert server.seen == []
        assert (await server.talk(request(b"/api/v1/pods")))[0][0] == 200


async def test_dripping_body() -> None:
    """A body that does not come to its end within the deadline is answered without it."""
    async with running() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(b"/clusters/a/api/v1/pods?timeout=50ms", b"Content-Length: 100", method=b"POST", body=b"drip"))
        assert b"504 Gateway Timeout" in await reader.readline()
        writer.close()
        assert server.seen == []


async def test_large_heads() -> None:
    """A million bytes of path or query, and many headers, are refused or served, and the server lives on."""
    async with running() as server:
        for raw in (
            request(b"/clusters/a/" + b"x" * 500_000),
            request(b"/clusters/a/api?" + b"x" * 500_000),
            request(b"/clusters/a/api?" + b"a&" * 10_000),
        ):
            assert (await server.talk(raw))[0][0] == 400
        many: Any = [b"X-%d: y" % number for number in range(10_000)]
        assert (await server.talk(request(b"/api/v1/pods", *many)))[0][0] == 200


async def test_space_behind_a_value() -> None:
    """Space behind the value of a header is not part of it."""
    async with running() as server:
        answers = await server.talk(request(b"/clusters/a/api/v1/pods", b"Content-Length: \t 2 \t", method=b"POST", body=b"{}"))
        assert [(code, orjson.loads(body)) for code, body in answers] == [(200, ["a", "/api/v1/pods", 2])]


async def test_watch_of_a_client_without_chunks() -> None:
    """A client of HTTP/1.0 does not know chunks: its stream is framed by the end of the connection."""
    async with running() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(b"/clusters/a/api/v1/pods?watch=1").replace(b"HTTP/1.1", b"HTTP/1.0"))
        await server.streaming.wait()
        server.gone.set()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert body == b"{}\n"
        assert b"connection: close" in head
        assert b"transfer-encoding" not in head
        writer.close()


async def test_disconnect_of_a_watch() -> None:
    """A watch is notified through the connection that its client has left."""
    async with running() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(b"/clusters/a/api/v1/pods?watch=1"))
        await server.streaming.wait()
        assert b"200 OK" in await reader.readline()
        writer.close()
        await asyncio.wait_for(server.gone.wait(), 60)
