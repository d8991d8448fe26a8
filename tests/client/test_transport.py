"""Failures as a server answers them, and headers of impersonation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpcore
import orjson
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.transport import MAX_RETRIES, Transport, _lines, impersonation, proxy_of, retry_seconds, status_error
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError


def test_a_status_is_the_error_that_it_was() -> None:
    """With code, reason, message, details and the token of a list that may go on."""
    for error in (
        errors.not_found(GroupResource("example.com", "widgets"), "one"),
        errors.expired("too old", continue_token="t"),
        errors.too_many_requests("later", 3),
    ):
        read = status_error(error.code, orjson.dumps(error.to_status()))
        assert read.to_status() == error.to_status()


@pytest.mark.parametrize(
    ("code", "body", "reason", "message"),
    [
        (404, b"404 page not found\n", "NotFound", "the server could not find the requested resource"),
        (502, b"<html>bad gateway</html>", "", "<html>bad gateway</html>"),
        (500, b"", "", "the server answered with status 500"),
        (400, b"[]", "", "[]"),
    ],
    ids=["unserved path", "proxy", "nothing", "not a Status"],
)
def test_an_answer_without_a_status_is_an_error_with_its_text(code: int, body: bytes, reason: str, message: str) -> None:
    """An unserved path has the text that client-go gives it."""
    error = status_error(code, body)
    assert (error.code, error.reason, error.message) == (code, reason, message)


def test_another_user_is_named_in_headers() -> None:
    """Keys of extra values are percent-encoded, as header names need it."""
    assert impersonation("jane", "1", ("a", "b"), {"x.io/y": ("z",)}) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-x.io%2Fy", "z"),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 100])
async def test_lines_are_whole_however_they_are_cut_into_parts(cut: int) -> None:
    """Empty lines are heartbeats and left out; a line without an end belongs to a broken connection."""
    content = b"one\n\n\ntwo two\nthree\nbroken"

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(content), cut):
            yield content[start : start + cut]

    lines = [line async for line in _lines(httpcore.Response(200, content=parts()))]
    assert lines == [b"one", b"two two", b"three"]


class Scripted:
    """A server that gives each request the next of some answers. None ends the connection without an answer."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.slept: list[float] = []

    @contextlib.asynccontextmanager
    async def transport(self) -> AsyncIterator[Transport]:
        """Serve, and yield a transport whose waiting is noted."""

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = Transport(KubeconfigContext(Path("config"), {"server": f"http://127.0.0.1:{port}"}, {}, "u"), sleep=sleep)
        async with server:
            yield transport
            await transport.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"Content-Length: 2" in head:
                    await reader.readexactly(2)
                self.requests.append(head.split(b" ")[0])
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
        writer.close()


def answered(status: str, *headers: str, body: bytes = b"{}") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


OK = answered("200 OK")
BUSY = answered("429 Too Many Requests", "Retry-After: 3")
STARTING = answered("503 Service Unavailable", "retry-after: 1")


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_refused_request_is_sent_again_when_the_server_says(method: str) -> None:
    """429 and 503 with Retry-After: the request was not carried out. The client waits for as long as the server says."""
    scripted = Scripted(BUSY, STARTING, OK)
    async with scripted.transport() as transport:
        assert await transport.request(method, "/x", body=None if method == "GET" else b"{}") == {}
    assert (len(scripted.requests), scripted.slept) == (3, [3.0, 1.0])


@pytest.mark.anyio
async def test_a_request_that_stays_refused_fails_in_the_end() -> None:
    """After ten repetitions, with the answer of the server; a stream like any other request."""
    scripted = Scripted(*[BUSY] * (MAX_RETRIES + 1), *[BUSY] * (MAX_RETRIES + 1))
    async with scripted.transport() as transport:
        with pytest.raises(StatusError) as caught:
            await transport.request("POST", "/x", body=b"{}")
        assert (caught.value.code, len(scripted.requests)) == (429, MAX_RETRIES + 1)
        with pytest.raises(StatusError):
            async with transport.stream("/x"):
                pass
    assert len(scripted.requests) == 2 * (MAX_RETRIES + 1)


@pytest.mark.anyio
async def test_a_stream_begins_when_the_server_takes_it() -> None:
    """The lines of a refusal are not lines of the stream."""
    scripted = Scripted(STARTING, answered("200 OK", body=b"one\ntwo\n"))
    async with scripted.transport() as transport, transport.stream("/x") as lines:
        assert [line async for line in lines] == [b"one", b"two"]
    assert scripted.slept == [1.0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(None, 503, id="the connection ends"),
        pytest.param(answered("504 Gateway Timeout", "Retry-After: 1"), 504, id="the time is over"),
        pytest.param(answered("500 Internal Server Error", "Retry-After: 1"), 500, id="an internal error"),
        pytest.param(answered("503 Service Unavailable"), 503, id="no time to wait"),
        pytest.param(answered("503 Service Unavailable", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"), 503, id="a date"),
    ],
)
async def test_a_write_that_may_have_been_carried_out_is_sent_once(answer: bytes | None, code: int) -> None:
    """On a new connection and on a kept one."""
    for before in ((), (OK,)):
        scripted = Scripted(*before, answer)
        async with scripted.transport() as transport:
            for _ in before:
                await transport.request("GET", "/x")
            with pytest.raises(StatusError) as caught:
                await transport.request("POST", "/x", body=b"{}")
        assert caught.value.code == code
        assert (scripted.requests.count(b"POST"), scripted.slept) == (1, [])


@pytest.mark.anyio
async def test_a_read_is_sent_again_where_the_connection_ends() -> None:
    """Once: the server may have closed a kept connection."""
    scripted = Scripted(OK, None, OK, None, None)
    async with scripted.transport() as transport:
        for _ in range(2):
            assert await transport.request("GET", "/x") == {}
        with pytest.raises(StatusError):
            await transport.request("GET", "/x")
    assert len(scripted.requests) == 5


@pytest.mark.parametrize(
    ("code", "value", "seconds"),
    [(429, b"1", 1.0), (503, b"0", 0.0), (503, b"-1", None), (429, b"", None), (500, b"1", None), (200, b"1", None), (504, b"1", None)],
)
def test_which_answers_are_no_end(code: int, value: bytes, seconds: float | None) -> None:
    """Only those of which the server says that nothing was done."""
    assert retry_seconds(code, [(b"X", b"y"), (b"Retry-After", value)]) == seconds


@pytest.mark.parametrize(
    ("server", "cluster", "environment", "proxy"),
    [
        ("https://api.example.com", {"proxy-url": "http://p:1"}, "http://q:2", "http://p:1"),
        ("https://api.example.com", {}, "http://q:2", "http://q:2"),
        ("https://127.0.0.1:6443", {}, "http://q:2", ""),
        ("https://inside.example.com", {}, "http://q:2", ""),
        ("https://api.example.com", {}, "", ""),
    ],
    ids=["kubeconfig", "environment", "this machine", "no_proxy", "none"],
)
def test_a_proxy_is_that_of_the_kubeconfig_or_of_the_environment(
    server: str, cluster: dict[str, str], environment: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As client-go chooses it."""
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", environment)
    monkeypatch.setenv("no_proxy", "inside.example.com")
    assert proxy_of(KubeconfigContext(Path("k"), {"server": server, **cluster}, {"token": "t"}, "u")) == proxy


def test_another_kind_of_proxy_is_refused() -> None:
    """Requests would go past it."""
    with pytest.raises(KubeconfigError, match="only proxies of HTTP"):
        proxy_of(KubeconfigContext(Path("k"), {"server": "https://a", "proxy-url": "socks5://p:1"}, {"token": "t"}, "u"))


@pytest.mark.anyio
async def test_a_request_goes_through_its_proxy() -> None:
    """With the credentials of the proxy."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        cluster = {"server": "http://api.example.com", "proxy-url": f"http://me:p%40ss@127.0.0.1:{port}"}
        transport = Transport(KubeconfigContext(Path("k"), cluster, {"token": "t"}, "u"))
        assert await transport.request("GET", "/version") == {}
        await transport.aclose()
    (head,) = heads
    assert head.startswith(b"GET http://api.example.com/version ")
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in head
