"""`Upstream`: the API server behind the proxy, as the proxy itself and as its clients.

Requests in the name of clients go over connections of their own, without the client certificate of the proxy: an API server asks for it
before it looks at tokens.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import httpcore
import structlog

from kcp_py.apimachinery.errors import bad_request
from kcp_py.client.transport import proxy_of
from kcp_py.egress.connections import Connections
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError
from kcp_py.kubeconfig.credentials import Credentials, Loaded

Header = tuple[bytes, bytes]

_CONNECTIONS: Final = 4096
"""Each watch that is passed on has one of its own."""
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 90.0
"""How long the server may take to begin an answer: longer than its own timeout of requests."""
_FAILURES: Final = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.UnsupportedProtocol)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.proxy")


class UnreachableError(Exception):
    """The API server cannot be reached, or does not answer. `str()` is the reason."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Sequence[Header]
    body: bytes


class Upstream:
    """Sends requests to the server of a kubeconfig. Close it at the end."""

    def __init__(self, context: KubeconfigContext) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        parts = urlsplit(str(context.cluster["server"]).rstrip("/"))
        self._scheme = parts.scheme.encode()
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._base = parts.path.encode()
        self._name = str(context.cluster.get("tls-server-name") or "")
        self._proxy = proxy_of(context)
        self._own = _Side(Credentials(context), self._proxy)
        self._clients = _Side(Credentials(replace(context, user={})), self._proxy)

    async def aclose(self) -> None:
        """Close all connections."""
        for side in (self._own, self._clients):
            await side.aclose()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        target: bytes,
        *,
        headers: Sequence[Header] = (),
        own: bool,
        body: bytes | AsyncGenerator[bytes, None] | None = None,
        silence: float | None = _ANSWER_SECONDS,
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request. Its answer is read within it.

        Args:
            method: of HTTP.
            target: path and query as they are sent, without the path of the kubeconfig's server.
            headers: of the request.
            own: whether it is made with the credentials of the proxy, and else with none but those in `headers`.
            body: of the request.
            silence: seconds that the server may be silent; None for no limit.

        Raises:
            UnreachableError: the server does not answer.
            StatusError: 400; the headers do not fit the body.
        """
        side = self._own if own else self._clients
        loaded = await side.loaded()
        begun = side.credentials.now()
        connections = await side.connected(loaded.tls)
        url = httpcore.URL(scheme=self._scheme, host=self._host.encode(), port=self._port, target=self.target(target))
        sent = [*((name.encode(), value.encode()) for name, value in loaded.headers), *headers]
        timeout = {"connect": _CONNECT_SECONDS, "read": silence, "write": _ANSWER_SECONDS, "pool": _CONNECT_SECONDS}
        extensions: dict[str, Any] = {"timeout": timeout, **({"sni_hostname": self._name} if self._name else {})}
        try:
            async with (
                connections.used() as pool,
                pool.stream(method, url, headers=sent, content=body, extensions=extensions) as response,
            ):
                if own and response.status == 401:
                    side.credentials.refused(begun)
                yield response
        except httpcore.LocalProtocolError as error:
            # Such as a length without its header, because the client has named that as one of the connection.
            raise bad_request(f"the request cannot be passed on: {error}") from error
        except _FAILURES as error:
            raise UnreachableError(" ".join(str(error).split()) or type(error).__name__) from error

    async def fetch(self, method: str, target: bytes, *, headers: Sequence[Header] = (), own: bool, body: bytes | None = None) -> Answer:
        """Send a request and read the whole answer. A kept connection that the server has closed is replaced.

        Raises:
            UnreachableError: see `stream`.
        """
        length = () if body is None else ((b"Content-Length", b"%d" % len(body)),)
        for again in (True, False):
            try:
                async with self.stream(method, target, headers=(*headers, *length), own=own, body=body) as response:
                    return Answer(response.status, response.headers, await response.aread())
            except UnreachableError as error:
                if not again or isinstance(error.__cause__, (httpcore.ConnectError, httpcore.TimeoutException)):
                    raise
        raise AssertionError  # pragma: no cover - the second attempt returns or raises

    async def connect(self, *, own: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Sequence[Header]]:
        """A connection for a request that upgrades it, and the headers with the credentials for it.

        Raises:
            UnreachableError: there is none.
        """
        loaded = await (self._own if own else self._clients).loaded()
        tls: ssl.SSLContext | None = loaded.tls
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                name = None if tls is None else self._name or self._host
                if self._proxy:
                    reader, writer = await self._connect_by_proxy(tls, name)
                else:
                    reader, writer = await asyncio.open_connection(self._host, self._port, ssl=tls, server_hostname=name)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise UnreachableError(str(error) or type(error).__name__) from error
        return reader, writer, [(name.encode(), value.encode()) for name, value in loaded.headers]

    async def _connect_by_proxy(self, tls: ssl.SSLContext | None, name: str | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection through an HTTP proxy (RFC 9110, 9.3.6).

        Raises:
            OSError: the proxy cannot be reached, or refuses.
        """
        parts = urlsplit(self._proxy)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=ssl.create_default_context() if secure else None)
        try:
            lines = [b"CONNECT %b HTTP/1.1" % self.authority, b"Host: " + self.authority]
            if parts.username:
                given = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
                lines.append(b"Proxy-Authorization: Basic " + base64.b64encode(given))
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
            _check_tunnel(await reader.readuntil(b"\r\n\r\n"))
            if tls is not None:
                await writer.start_tls(tls, server_hostname=name)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    @property
    def authority(self) -> bytes:
        """Host and port, as the header `Host` has them."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}".encode()

    def target(self, target: bytes) -> bytes:
        """Path and query as the server gets them. A logical cluster of the request replaces that of the kubeconfig."""
        base = self._base
        if target.startswith(b"/clusters/"):
            base = base.partition(b"/clusters/")[0]
        return base + target


def _check_tunnel(head: bytes) -> None:
    """Refuse the answer of a proxy that does not connect.

    Raises:
        ConnectionRefusedError: it is one.
    """
    status = head.partition(b"\r\n")[0]
    if not status.partition(b" ")[2].startswith(b"2"):
        raise ConnectionRefusedError(f"the proxy refuses: {status.decode('latin-1')}")


class _Side:
    """Connections with one kind of credentials."""

    def __init__(self, credentials: Credentials, proxy: str) -> None:
        self.credentials = credentials
        self._proxy = proxy
        self._failed = False
        self._connections: Connections | None = None

    async def loaded(self) -> Loaded:
        """The credentials for a request that begins now.

        Raises:
            UnreachableError: a program has not given any yet. Its reason is for the log, not for clients.
        """
        try:
            found = await self.credentials.current()
        except KubeconfigError as error:
            if not self._failed:
                self._failed = True
                _log.warning("proxy_credentials_failed", error=str(error))
            raise UnreachableError("the credentials of the proxy cannot be used") from error
        self._failed = False
        return found

    async def connected(self, tls: ssl.SSLContext | None) -> Connections:
        """The connections with these settings; those with others are closed when the requests on them have ended."""
        present = self._connections
        if present is None or present.tls is not tls:
            self._connections = Connections(tls, _CONNECTIONS, proxy=self._proxy)
            if present is not None:
                await present.retire()
        assert self._connections is not None
        return self._connections

    async def aclose(self) -> None:
        if self._connections is not None:
            await self._connections.pool.aclose()
