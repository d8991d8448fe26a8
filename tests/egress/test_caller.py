"""Calls of endpoints that tenants name: requests, refusals and failures."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from kcp_py.egress import Answer, Caller, CallError, Endpoint, Networks, Service
from tests.egress.https import Certificate, HttpsServer, Request, http, issue
from tests.ports import reserve_port

pytestmark = pytest.mark.anyio

LOOPBACK = Networks(["127.0.0.0/8"])
LARGE = 1_000_000


async def fine(request: Request) -> bytes:
    del request
    return http(200, b'{"fine":true}')


@asynccontextmanager
async def calling(networks: Networks = LOOPBACK, timeout: float = 30.0) -> AsyncIterator[Caller]:
    caller = Caller(networks, timeout=timeout)
    try:
        yield caller
    finally:
        await caller.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("pki"), "127.0.0.1", "convert.team.svc")


def endpoint(server: HttpsServer, path: str = "/convert") -> Endpoint:
    return Endpoint(f"{server.origin}{path}", server.certificate.authority)


async def problem(caller: Caller, where: Endpoint, max_bytes: int = LARGE) -> str:
    with pytest.raises(CallError) as caught:
        await caller.post(where, b"{}", max_bytes=max_bytes)
    return str(caught.value)


async def test_json_is_posted_over_kept_connections(certificate: Certificate) -> None:
    """With upstream's headers and its timeout in the query; a second call needs no second handshake."""
    async with HttpsServer(certificate, fine) as server, calling() as caller:
        for _ in range(3):
            assert await caller.post(endpoint(server), b'{"a":1}', max_bytes=LARGE) == Answer(200, b'{"fine":true}')
        assert server.connections == 1
        request = server.requests[0]
        assert request.target == "/convert?timeout=30s"
        assert request.body == b'{"a":1}'
        assert request.headers["content-type"] == "application/json"
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert "authorization" not in request.headers


async def test_a_connection_that_was_closed_is_opened_again(certificate: Certificate) -> None:
    """Once: a server that always hangs up is not asked for ever."""
    replies = [http(200, b"1"), b"", http(200, b"2"), b"", b""]

    async def respond(request: Request) -> bytes:
        del request
        return replies.pop(0)

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        assert (await caller.post(endpoint(server), b"{}", max_bytes=LARGE)).body == b"1"
        assert (await caller.post(endpoint(server), b"{}", max_bytes=LARGE)).body == b"2"
        assert (await problem(caller, endpoint(server))).endswith(": EOF")
        assert not replies


async def test_a_request_is_not_repeated_on_a_new_connection(certificate: Certificate) -> None:
    """The server may have carried it out before it hung up."""

    async def respond(request: Request) -> bytes:
        del request
        return b""

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        assert (await problem(caller, endpoint(server))).endswith(": EOF")
        assert len(server.requests) == 1


async def test_a_redirect_is_an_answer(certificate: Certificate) -> None:
    """A redirect with another method is not followed."""

    async def respond(request: Request) -> bytes:
        del request
        return http(302, b"", "Location: http://169.254.169.254/latest/meta-data")

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        assert (await caller.post(endpoint(server), b"{}", max_bytes=LARGE)).status == 302
        assert len(server.requests) == 1


async def test_redirects_to_the_same_origin_are_followed(certificate: Certificate) -> None:
    """The request goes to the path of a 307 or 308, ten times at most; another origin is not called."""
    places = {"//twice": "/twice", "/loop": "/loop", "/away": "https://127.0.0.1:1/x"}

    async def respond(request: Request) -> bytes:
        place = places.get(request.target.partition("?")[0])
        return await fine(request) if place is None else http(307, b"", f"Location: {place}")

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        assert (await caller.post(endpoint(server, "//twice"), b'{"a":1}', max_bytes=LARGE)).status == 200
        assert [(one.target, one.body) for one in server.requests] == [("//twice?timeout=30s", b'{"a":1}'), ("/twice", b'{"a":1}')]
        assert (await caller.post(endpoint(server, "/away"), b"{}", max_bytes=LARGE)).status == 307
        server.requests.clear()
        assert "stopped after 10 redirects" in await problem(caller, endpoint(server, "/loop"))
        assert len(server.requests) == 10


async def test_networks_are_checked_before_a_connection_is_opened(certificate: Certificate) -> None:
    """For addresses in the URL as for those that a name stands for, and without saying what a name stands for."""
    async with HttpsServer(certificate, fine) as server, calling(Networks(["public"])) as caller:
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"):
            text = await problem(caller, Endpoint(f"https://{host}:{server.port}/x", certificate.authority))
            assert text.startswith(f'Post "https://{host}:{server.port}/x?timeout=30s": dial tcp: ')
            assert text.endswith("is in no network that webhooks may reach")
        assert server.connections == 0


async def test_names_are_resolved_once_and_the_certificate_is_for_the_name(certificate: Certificate) -> None:
    """A name that is not in the certificate is refused, wherever it leads."""
    async with HttpsServer(certificate, fine) as server, calling(Networks(["127.0.0.0/8"])) as caller:
        text = await problem(caller, Endpoint(f"https://localhost:{server.port}/", certificate.authority))
        assert text.endswith("tls: failed to verify certificate: x509: certificate is not valid for localhost")


async def test_only_the_given_authorities_are_trusted(tmp_path: Path, certificate: Certificate) -> None:
    """Not those of others, and those of the system only where none are given."""
    other = issue(tmp_path, "127.0.0.1")
    old = issue(tmp_path, "127.0.0.1", age=dt.timedelta(days=9))
    async with HttpsServer(certificate, fine) as server, HttpsServer(old, fine) as expired, calling() as caller:
        unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        assert (await problem(caller, Endpoint(endpoint(server).url, other.authority))).endswith(unknown)
        assert (await problem(caller, Endpoint(endpoint(server).url))).endswith(unknown)
        assert (await problem(caller, endpoint(expired))).endswith("certificate has expired or is not yet valid")
        assert (await problem(caller, Endpoint(endpoint(server).url, b"rubbish"))).endswith("unable to parse bytes as PEM block")
        assert (await caller.post(endpoint(server), b"{}", max_bytes=LARGE)).status == 200


async def test_an_answer_that_is_too_large_is_cut_off(certificate: Certificate) -> None:
    """However it is sent."""

    async def respond(request: Request) -> bytes:
        del request
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 0x400 + b"\r\n"

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        assert (await problem(caller, endpoint(server), max_bytes=1000)).endswith("http: response body too large: limit is 1000")


async def test_a_server_that_does_not_answer_is_left(certificate: Certificate) -> None:
    """In the words of Go's client, and the connection with it."""

    async def respond(request: Request) -> bytes:
        del request
        await asyncio.Event().wait()
        return b""

    async with HttpsServer(certificate, respond) as server, calling(timeout=0.05) as caller:
        assert "context deadline exceeded (Client.Timeout exceeded while awaiting headers)" in await problem(caller, endpoint(server))


async def test_who_does_not_listen_is_named_as_upstream_names_it(certificate: Certificate) -> None:
    """Calls of a closed port, a server without TLS, an unknown name and an invalid URL fail."""
    gone = Endpoint(f"https://127.0.0.1:{reserve_port()}/convert", certificate.authority)
    plain = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = plain.sockets[0].getsockname()[1]
    async with plain, calling() as caller:
        assert await problem(caller, gone) == f'Post "{gone.url}?timeout=30s": dial tcp {gone.url[8:-8]}: connect: connection refused'
        assert (await problem(caller, Endpoint(f"https://127.0.0.1:{port}/"))).endswith(("EOF", "handshake failure"))
        assert (await problem(caller, Endpoint("https://no-such-name.invalid/"))).endswith("lookup no-such-name.invalid: no such host")
        for url in ("https://h\u00f6st/", "https://[::1/", "https://host:port/", "https://127.0.0.1:1/a b"):
            assert await problem(caller, Endpoint(url))


async def test_handshakes_that_are_given_up_leave_no_connection(certificate: Certificate) -> None:
    """A server that never answers the handshake sees the end of the connection when the time of the call is over."""
    ended = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**20)
    where = Endpoint(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", certificate.authority)
    async with server, calling() as caller:
        with pytest.raises(CallError, match="context deadline exceeded"):
            await caller.post(where, b"{}", max_bytes=LARGE, timeout=1, tenant="a")
        async with asyncio.timeout(60):
            await ended.wait()


async def test_services_are_found_by_the_operators_resolver(certificate: Certificate) -> None:
    """Its word is taken, the certificate has to be the service's, and without it there are no services."""
    async with HttpsServer(certificate, fine) as server, calling() as caller:
        service = Service("team", "convert", 443)
        where = Endpoint("https://convert.team.svc:443/convert", certificate.authority, service)
        text = 'Post "https://convert.team.svc:443/convert?timeout=30s": service "convert" not found'
        assert await problem(caller, where) == text

        async def resolve(asked: Service) -> tuple[str, int] | None:
            return ("127.0.0.1", server.port) if asked == service else None

        resolving = Caller(Networks([]), services=resolve)
        try:
            assert (await resolving.post(where, b"{}", max_bytes=LARGE)).status == 200
            other = Service("team", "other", 443)
            assert (await problem(resolving, where._replace(service=other))).endswith('service "other" not found')
        finally:
            await resolving.aclose()


async def test_connections_of_few_endpoints_are_kept(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used last."""
    monkeypatch.setattr("kcp_py.egress.caller._POOLS", 1)
    async with HttpsServer(certificate, fine) as one, HttpsServer(certificate, fine) as other, calling() as caller:
        for server in (one, one, other, one, one):
            await caller.post(endpoint(server), b"{}", max_bytes=LARGE)
        assert (one.connections, other.connections) == (2, 1)


async def test_calls_at_once_do_not_wait_for_each_other(certificate: Certificate) -> None:
    """Up to the bound of connections to one endpoint."""
    together = asyncio.Barrier(8)

    async def respond(request: Request) -> bytes:
        await together.wait()
        return await fine(request)

    async with HttpsServer(certificate, respond) as server, calling() as caller:
        answers = await asyncio.gather(*(caller.post(endpoint(server), b"{}", max_bytes=LARGE) for _ in range(8)))
        assert [answer.status for answer in answers] == [200] * 8


async def test_services_of_tenants_are_found_in_allowed_networks(certificate: Certificate) -> None:
    """The operator's resolver comes first; the addresses of the other one are checked, and it is told the tenant."""
    async with HttpsServer(certificate, fine) as server:
        where = Endpoint("https://convert.team.svc:443/convert", certificate.authority, Service("team", "convert", 443))
        told: list[Service] = []

        async def by_tenants(asked: Service) -> tuple[str, int] | None:
            told.append(asked)
            return "127.0.0.1", server.port

        async def by_operator(asked: Service) -> tuple[str, int] | None:
            return ("127.0.0.1", server.port) if asked.cluster == "b" else None

        caller = Caller(Networks([]), services=by_operator, tenant_services=by_tenants)
        with pytest.raises(CallError, match=r"dial tcp: 127\.0\.0\.1 is in no network that webhooks may reach$"):
            await caller.post(where, b"{}", max_bytes=LARGE, tenant="a")
        assert (await caller.post(where, b"{}", max_bytes=LARGE, tenant="b")).status == 200
        assert told == [Service("team", "convert", 443, "a")]
        await caller.aclose()


async def test_a_name_server_that_hangs_delays_one_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups of one tenant take few threads, also where nothing waits for them any more; other tenants have theirs."""
    hanging, asked = threading.Event(), []

    def look_up(host: str, port: int) -> list[str]:
        del port
        asked.append(host)
        if host.startswith("hangs"):
            hanging.wait(60)
            raise OSError
        return ["127.0.0.1"]

    monkeypatch.setattr("kcp_py.egress.connecting._look_up", look_up)
    names = [f"hangs-{number}.test" for number in range(300)]
    async with HttpsServer(issue(tmp_path, "fine.test", "convert.team.svc"), fine) as server, calling() as caller:
        authority = server.certificate.authority
        try:
            for _ in range(2):
                calls = [
                    asyncio.ensure_future(caller.post(Endpoint(f"https://{name}/", authority), b"{}", max_bytes=LARGE, tenant=tenant))
                    for name in names
                    for tenant in ("a", "b")
                ]
                good = Endpoint(f"https://fine.test:{server.port}/", authority)
                for tenant in ("c", "d", ""):
                    assert (await caller.post(good, b"{}", max_bytes=LARGE, tenant=tenant)).status == 200
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
            assert len([host for host in asked if host.startswith("hangs")]) == 4
        finally:
            hanging.set()
        late = Endpoint(f"https://fine.test:{server.port}/late", authority)
        assert (await caller.post(late, b"{}", max_bytes=LARGE, tenant="a")).status == 200


async def test_calls_of_one_tenant_are_bounded(certificate: Certificate) -> None:
    """Those beyond the bound wait, to whatever server they go; other tenants do not wait for them."""
    go = asyncio.Event()

    async def respond(request: Request) -> bytes:
        if request.target.startswith("/hangs"):
            await go.wait()
        return await fine(request)

    async with HttpsServer(certificate, respond) as one, HttpsServer(certificate, respond) as other, calling() as caller:
        many = [endpoint(server, f"/hangs/{number}") for number in range(100) for server in (one, other)]
        calls = [asyncio.ensure_future(caller.post(where, b"{}", max_bytes=LARGE, tenant="a")) for where in many]
        while len(one.requests) + len(other.requests) < 32:
            await asyncio.sleep(0)
        assert (await caller.post(endpoint(one), b"{}", max_bytes=LARGE, tenant="b")).status == 200
        go.set()
        assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
