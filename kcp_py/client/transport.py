"""`Transport`: HTTP requests to the API server of a kubeconfig, over connections that are kept.

The server is the operator's own and is named in a kubeconfig. Endpoints that tenants name are called by `egress` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import orjson

from kcp_py._version import __version__
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.egress.connections import Connections
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError
from kcp_py.kubeconfig.credentials import Credentials

Query = Sequence[tuple[str, str]]
Headers = Sequence[tuple[str, str]]

MAX_RETRIES: Final = 10
"""As client-go (`rest/request.go`)."""

_CONNECTIONS: Final = 200
"""Each watch has one of its own."""
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 90.0
"""How long the server may be silent: longer than its own timeout of requests."""


class Transport:
    """Sends requests to one server with the credentials of one context. Close it when it is not needed any more.

    A request that the server refuses with 429 or 503 and a `Retry-After` of seconds is sent again after this time, `MAX_RETRIES` times at
    most, as client-go does. The server gives such an answer only where it has not begun to carry the request out. In other failures a
    write is never sent again: the server may have carried it out.
    """

    def __init__(
        self,
        context: KubeconfigContext,
        *,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        credentials: Credentials | None = None,
    ) -> None:
        """Prepare; nothing is connected before the first request.

        Args:
            context: the server and the credentials.
            sleep: for tests.
            credentials: of the context; for tests.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        self.base_url = context.base_url
        self._sleep = sleep
        self._credentials = credentials if credentials is not None else Credentials(context)
        self._agent = ("User-Agent", f"kcp-py/{__version__}")
        self._connections: Connections | None = None
        # The name in the certificate, where it is not that of the URL.
        name = context.cluster.get("tls-server-name")
        self._server_name = {"sni_hostname": str(name)} if name else {}
        self._proxy = proxy_of(context)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._connections is not None:
            await self._connections.pool.aclose()

    async def request(self, method: str, path: str, *, query: Query = (), headers: Headers = (), body: bytes | None = None) -> Any:
        """Send a request and return the decoded answer; None for an empty one.

        Args:
            method: of HTTP.
            path: percent-encoded.
            query: parameters, not encoded.
            headers: in addition to the credentials and User-Agent.
            body: JSON.

        Raises:
            StatusError: the failure that the server answered with; 503 where it cannot be reached or does not answer.
        """
        length = () if body is None else (("Content-Length", str(len(body))),)
        retries = -1
        while True:
            retries += 1
            try:
                async with self._open(method, path, query, headers=(*headers, *length), body=body, answer=_ANSWER_SECONDS) as response:
                    content = await response.aread()
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                # The server may have closed a kept connection while a request was on its way: a read is sent again, once.
                if method == "GET" and not retries and not isinstance(error, (httpcore.ConnectError, httpcore.TimeoutException)):
                    continue
                raise self._unreachable(error) from error
            if response.status < 400:
                return _decoded(content) if content else None
            seconds = retry_seconds(response.status, response.headers)
            if seconds is None or retries == MAX_RETRIES:
                raise status_error(response.status, content)
            await self._sleep(seconds)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query = (), headers: Headers = (), silence: float | None = None
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Send a GET and iterate over the lines of the answer as they come. The lines end when the connection ends, for whatever reason.

        Args:
            path: percent-encoded.
            query: parameters, not encoded.
            headers: in addition to the credentials and User-Agent.
            silence: seconds without a byte after which the lines end; None for no limit.

        Raises:
            StatusError: as `request`.
        """
        try:
            retries = -1
            while True:
                retries += 1
                async with self._open("GET", path, query, headers=headers, body=None, answer=silence) as response:
                    if response.status < 400:
                        lines = _lines(response)
                        try:
                            yield lines
                        finally:
                            await lines.aclose()
                        return
                    failure = status_error(response.status, await response.aread())
                    seconds = retry_seconds(response.status, response.headers)
                if seconds is None or retries == MAX_RETRIES:
                    raise failure
                await self._sleep(seconds)
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, query: Query, *, headers: Headers, body: bytes | None, answer: float | None
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request once, with the present credentials."""
        begun = self._credentials.now()
        try:
            loaded = await self._credentials.current()
        except KubeconfigError as error:
            raise StatusError(401, "Unauthorized", str(error)) from error
        connections = self._connections
        if connections is None or connections.tls is not loaded.tls:
            # Connections with replaced certificates are closed when the requests on them have ended.
            replaced, self._connections = connections, Connections(loaded.tls, _CONNECTIONS, proxy=self._proxy)
            connections = self._connections
            if replaced is not None:
                await replaced.retire()
        sent = [self._agent, *loaded.headers, *headers]
        extensions = {**_timeouts(answer), **self._server_name}
        async with (
            connections.used() as pool,
            pool.stream(method, self._url(path, query), headers=sent, content=body, extensions=extensions) as response,
        ):
            if response.status == 401:
                self._credentials.refused(begun)
            yield response

    def _url(self, path: str, query: Query) -> str:
        encoded = urlencode(query, quote_via=quote, safe="")
        return f"{self.base_url}{path}?{encoded}" if encoded else f"{self.base_url}{path}"

    def _unreachable(self, error: Exception) -> StatusError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return errors.service_unavailable(f"{self.base_url}: {reason}")


def proxy_of(context: KubeconfigContext) -> str:
    """The URL of the proxy to a server; empty without one.

    As client-go: `proxy-url` of the kubeconfig, else the variables of the environment, which do not count for this machine.

    Raises:
        KubeconfigError: the proxy is of another kind.
    """
    parts = urlsplit(context.base_url)
    host = parts.hostname or ""
    found = str(context.cluster.get("proxy-url") or "")
    if not found and not (host == "localhost" or host.startswith("127.") or host == "::1" or proxy_bypass(host)):
        found = getproxies().get(parts.scheme, "")
    if found and urlsplit(found).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{context.file}: proxy-url: {found}: only proxies of HTTP are supported")
    return found


def retry_seconds(code: int, headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """How long to wait before a refused request is sent again; None where it must not be.

    client-go does so for all codes from 500 on. Only the two that say that nothing was done count here.
    """
    if code not in {429, 503}:
        return None
    value = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    return float(value) if value.isdigit() else None


def status_error(code: int, body: bytes) -> StatusError:
    """The failure that a server answered with.

    An answer without a Status gets the text of client-go (`k8s.io/client-go/rest`, apimachinery `errors.NewGenericServerResponse`).
    """
    try:
        status = orjson.loads(body)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return status_error_of(status, code)
    if code == 404:
        return errors.unserved()
    text = body.decode("utf-8", errors="replace").strip() or f"the server answered with status {code}"
    return StatusError(code, "", text)


def status_error_of(status: Mapping[str, Any], code: int = 500) -> StatusError:
    """The error that a Status object stands for."""
    return StatusError(
        status.get("code") or code,
        status.get("reason") or "",
        status.get("message") or "",
        details=status.get("details"),
        metadata=status.get("metadata") or None,
    )


def _decoded(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError as error:
        raise errors.internal(f"the answer of the server is not JSON: {error}") from error


def _timeouts(answer: float | None) -> dict[str, Any]:
    return {"timeout": {"connect": _CONNECT_SECONDS, "read": answer, "write": _ANSWER_SECONDS, "pool": _ANSWER_SECONDS}}


async def _lines(response: httpcore.Response) -> AsyncGenerator[bytes, None]:
    # The parts of a line that is not complete: a large object arrives in many, and joining each with the rest would be quadratic.
    begun: list[bytes] = []
    try:
        async for part in response.aiter_stream():
            first, *others = part.split(b"\n")
            begun.append(first)
            for other in others:
                if line := b"".join(begun):
                    yield line
                begun = [other]
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        return


def impersonation(name: str, uid: str, groups: Iterable[str], extra: Mapping[str, Iterable[str]]) -> Headers:
    """The headers of a request as another user."""
    found = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid:
        found.append(("Impersonate-Uid", uid))
    found += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for key, values in extra.items() for value in values]
    return found
