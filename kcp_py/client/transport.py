"""`Transport`: HTTP requests to the API server of a kubeconfig, over connections that are kept.

The server is the operator's own and is named in a kubeconfig. Endpoints that tenants name are called by `egress` alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpcore
import orjson

from kcp_py._version import __version__
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.kubeconfig import KubeconfigContext, client_ssl_context, token_header

Query = Sequence[tuple[str, str]]
Headers = Sequence[tuple[str, str]]

_CONNECTIONS: Final = 200
"""Each watch has one of its own."""
_IDLE_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 90.0
"""How long the server may be silent: longer than its own timeout of requests."""


class Transport:
    """Sends requests to one server with the credentials of one context. Close it when it is not needed any more."""

    def __init__(self, context: KubeconfigContext) -> None:
        """Prepare; nothing is connected before the first request.

        Args:
            context: the server and the credentials.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        self.base_url = context.base_url
        self._headers = [("User-Agent", f"kcp-py/{__version__}"), *token_header(context).items()]
        tls = client_ssl_context(context) if self.base_url.startswith("https:") else None
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

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
        attempts = 2 if method == "GET" else 1
        while True:
            attempts -= 1
            try:
                response = await self._pool.request(
                    method, self._url(path, query), headers=self._all(headers, body), content=body, extensions=_timeouts(_ANSWER_SECONDS)
                )
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                # The server may have closed a kept connection while a request was on its way: a read is sent again.
                if attempts and not isinstance(error, (httpcore.ConnectError, httpcore.TimeoutException)):
                    continue
                raise self._unreachable(error) from error
            if response.status >= 400:
                raise status_error(response.status, response.content)
            return _decoded(response.content) if response.content else None

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
            async with self._pool.stream(
                "GET", self._url(path, query), headers=self._all(headers, None), extensions=_timeouts(silence)
            ) as response:
                if response.status >= 400:
                    raise status_error(response.status, await response.aread())
                lines = _lines(response)
                try:
                    yield lines
                finally:
                    await lines.aclose()
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise self._unreachable(error) from error

    def _url(self, path: str, query: Query) -> str:
        encoded = urlencode(query, quote_via=quote, safe="")
        return f"{self.base_url}{path}?{encoded}" if encoded else f"{self.base_url}{path}"

    def _all(self, headers: Headers, body: bytes | None) -> list[tuple[str, str]]:
        length = [] if body is None else [("Content-Length", str(len(body)))]
        return [*self._headers, *headers, *length]

    def _unreachable(self, error: Exception) -> StatusError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return errors.service_unavailable(f"{self.base_url}: {reason}")


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
