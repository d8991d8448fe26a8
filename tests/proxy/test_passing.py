"""Requests that are passed on: their headers, and connections that are upgraded."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from kcp_py.proxy.access import Caller
from kcp_py.proxy.passing import passed_headers
from tests.proxy.conftest import ADMIN, CLUSTER, DEFAULT, MAPS, World, configmap
from tests.proxy.scripted import scripted

pytestmark = pytest.mark.anyio
ORIGIN = Origin("http://localhost")


def test_headers() -> None:
    """Those of the connection and those of identity end here; the caller's are added."""
    given = [
        (b"host", b"proxy"),
        (b"connection", b"keep-alive, X-Private"),
        (b"x-private", b"1"),
        (b"te", b"trailers"),
        (b"authorization", b"Bearer of the client"),
        (b"impersonate-user", b"client"),
        (b"x-remote-user", b"admin"),
        (b"x-kubernetes-cluster", b"other"),
        (b"accept", b"application/json"),
    ]
    caller = Caller(own=True, headers=((b"impersonate-user", b"bob"),))
    assert passed_headers(given, caller) == [(b"accept", b"application/json"), (b"impersonate-user", b"bob")]


async def test_upgrades(world: World) -> None:
    """A watch over WebSocket goes through with the token of its client, in a header or in a subprotocol; a refusal comes back."""
    async with world.proxy() as proxied:
        await proxied.create(configmap("one"))
        url = f"{str(proxied.client.base_url).replace('http', 'ws', 1).rstrip('/')}{MAPS}?watch=true&resourceVersion=0"
        token = base64.urlsafe_b64encode(b"admin").rstrip(b"=").decode()
        protocols = [f"base64url.bearer.authorization.k8s.io.{token}", "base64.binary.k8s.io"]
        for options in ({"additional_headers": ADMIN}, {"subprotocols": protocols}):
            async with asyncio.timeout(60), connect(url, origin=ORIGIN, **options) as socket:
                message = await socket.recv()
                event = json.loads(message)
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "one")
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, origin=ORIGIN):
                pass
        assert refused.value.response.status_code == 403
        async with connect(url, origin=ORIGIN, additional_headers=ADMIN) as socket:
            await socket.recv()
            await world.stop()
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(_all_messages(socket), 60)
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, origin=ORIGIN, additional_headers=ADMIN):
                pass
        assert refused.value.response.status_code == 503
        assert proxied.proxy.counts["tunneled"] == 5


async def test_nothing_follows_a_refused_upgrade(world: World) -> None:
    """A request behind one that offers an upgrade would be made with the certificate of the proxy, if it has one."""
    async with world.proxy(share_credentials=True) as proxied:
        url = proxied.client.base_url
        follower = b"DELETE /clusters/team-a/api/v1/namespaces/default/configmaps/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        await proxied.create(configmap("one"))
        for path in (DEFAULT, f"{DEFAULT}/one", "/clusters/team-a/nonsense"):
            reader, writer = await asyncio.open_connection("127.0.0.1", url.port)
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
            writer.write(head.encode() + follower)
            answer = await asyncio.wait_for(reader.read(), 60)
            assert answer.count(b"HTTP/1.1") == 1, answer
            assert b"connection: close" in answer
            writer.close()
        assert (await proxied.client.get(f"{DEFAULT}/one")).status_code == 200


async def test_clients_that_leave(world: World) -> None:
    """Their requests to the API server end, too."""
    async with world.proxy(resources=()) as proxied:
        await proxied.create(configmap("one"))
        async with proxied.watching(MAPS, resourceVersion="0") as watch:
            assert await watch.next() == [("ADDED", "one")]
        pool = proxied.proxy._upstream._clients._connections
        assert pool is not None
        async with asyncio.timeout(60):
            while any(not one.is_idle() and not one.is_closed() for one in pool.pool.connections):
                await asyncio.sleep(0.01)


async def test_large_bodies(world: World) -> None:
    """They go on as they come, whole."""
    async with world.proxy() as proxied:
        large = "x" * 900_000
        await proxied.create(configmap("large", key=large))
        assert (await proxied.client.get(f"{DEFAULT}/large")).json()["data"]["key"] == large

        async def chunks():
            body = json.dumps(configmap("chunked", key="y" * 100_000)).encode()
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        answer = await proxied.client.post(DEFAULT, content=chunks(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 201, answer.text
        answer = await proxied.client.get(f"{CLUSTER}/api/v1/nonsense")
        assert answer.status_code == 404


async def test_a_length_without_its_header(tmp_path: Path) -> None:
    """A client that names it as one of the connection is wrong; the API server is not unreachable."""
    async with scripted() as server, World(tmp_path).proxy(server.context) as proxied:
        for header in ("content-length", "Content-Length, close"):
            answer = await proxied.client.post(DEFAULT, json=configmap("one"), headers={"Connection": header})
            assert answer.status_code in {200, 400}, answer.text
        assert all("content-length: " in head or "transfer-encoding" in head for head in map(str.lower, server.heads))


HEAD = b"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer admin\r\nConnection: close\r\n"
FOLLOWER = b"\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
WATCH = b"GET /api/v1/configmaps?watch=true&resourceVersion=0&timeoutSeconds=9999999999999999999 "


async def answers_of(port: int | None, request: bytes) -> bytes:
    """The bytes that a connection gives back until its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read(-1)
    writer.close()
    return answer


async def test_requests_that_two_servers_may_read_differently(tmp_path: Path) -> None:
    """They are refused, and none of their parts reaches the API server, with whose connection the proxy may have a certificate."""
    upgrade = b"Upgrade: websocket\r\n"
    cases = [
        b"POST /x " + HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + FOLLOWER,
        b"POST /x " + HEAD + b"Transfer-Encoding: xchunked\r\n" + FOLLOWER,
        b"POST /x " + HEAD + b"Content-Length: 0\r\nContent-Length: 44\r\n" + FOLLOWER,
        b"POST /x " + HEAD.replace(b"close", b"Upgrade") + upgrade + b"Content-Length: 44\r\n" + FOLLOWER,
        b"GET /x " + HEAD.replace(b"close", b"Upgrade") + upgrade + b"Transfer-Encoding: chunked\r\n" + FOLLOWER,
        b"GET /x " + HEAD + b"X-A: b\r\n Impersonate-User: admin\r\n\r\n",
        b"GET /x " + HEAD + b"X-A: b\rImpersonate-User: admin\r\n\r\n",
        b"GET /x " + HEAD + b"X-A: b\0\r\n\r\n",
        b"GET /x " + HEAD + b"Impersonate-User : admin\r\n\r\n",
        b"GET /\xc3\xa9?x=\xff " + HEAD + b"\r\n",
        b"GET /x#y " + HEAD + b"\r\n",
        b"CONNECT 127.0.0.1:22 " + HEAD + b"\r\n",
        b"GET /x " + HEAD + b"Host: evil\r\n\r\n",
        b"GET /x " + HEAD + b"X-A: " + b"a" * 2_000_000 + b"\r\n\r\n",
    ]
    async with scripted() as server, World(tmp_path).proxy(server.context, share_credentials=True) as proxied:
        for request in cases:
            answer = await answers_of(proxied.client.base_url.port, request)
            assert answer[:10] == b"HTTP/1.1 4", (request[:200], answer)
            assert answer.count(b"HTTP/1.1 ") == 1
        assert server.heads == []


async def test_paths_that_two_servers_may_read_differently(tmp_path: Path) -> None:
    """They are passed on as they are, in the name of their client, and never answered from a cache."""
    paths = [
        "//api/v1/configmaps",
        "/clusters/a/../b/api/v1/configmaps",
        "/clusters/a/%2e%2e/b/api/v1/configmaps",
        "/clusters/%61/api/v1/configmaps",
        "/clusters/a%2Fb/api/v1/configmaps",
        "/clusters/*/api/v1/configmaps",
        "/clusters//api/v1/configmaps",
        "/api/v1/./configmaps",
        "/api/v1/configmaps/",
        "/api/v1/configmaps;a=b",
    ]
    async with scripted() as server, World(tmp_path).proxy(server.context, stale_ok=True) as proxied:
        for path in paths:
            request = f"GET {path}?resourceVersion=0 ".encode() + HEAD + b"X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n\r\n"
            assert b"200 OK" in await answers_of(proxied.client.base_url.port, request)
            assert server.heads[-1].startswith(f"GET {path}?resourceVersion=0 HTTP/1.1\r\n")
            assert "authorization: bearer admin" in server.heads[-1].lower()
            assert "x-remote" not in server.heads[-1].lower()
        assert (len(server.heads), list(proxied.proxy.caches)) == (len(paths), [])
        # The longest time that a client can ask for.
        request = WATCH + HEAD + b"\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", proxied.client.base_url.port)
        writer.write(request)
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200")
        writer.close()


async def _all_messages(socket) -> None:
    while True:
        await socket.recv()
