"""`OperatorWebhook`: POSTs JSON to a webhook that the operator names in a kubeconfig.

The networks that tenants' webhooks may reach do not matter here: the operator chose the address. Calls are bounded in number, time and size
of the answer for each webhook by itself, so that a slow one delays only the requests that ask it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kcp_py._version import __version__
from kcp_py.egress.endpoint import CallError

if TYPE_CHECKING:
    import ssl

    from kcp_py.egress.connections import Connections

_CALLS: Final = 64
"""Concurrent calls to one webhook. Further ones wait, which counts as a part of their time."""
_MAX_ANSWER_BYTES: Final = 1024 * 1024


class CallTimeoutError(CallError):
    """The answer was not complete in time."""


class CallResetError(CallError):
    """The connection was closed during the call."""


class WebhookAnswer(NamedTuple):
    """The answer of a webhook, whatever its status."""

    status: int
    body: bytes
    retry_after: bool
    """Whether the webhook asks for a repetition by a Retry-After of seconds."""


class Loaded(Protocol):
    """Credentials as they are now."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...
    @property
    def tls(self) -> ssl.SSLContext | None: ...


class CredentialSource(Protocol):
    """Credentials that may change: `kubeconfig.credentials.Credentials`."""

    def now(self) -> float: ...
    async def current(self) -> Loaded: ...
    def refused(self, sent_at: float) -> None: ...


class OperatorWebhook:
    """Calls one webhook over persistent connections. Close it when it is not needed any more."""

    def __init__(self, url: str, credentials: CredentialSource, *, timeout: float, server_name: str = "") -> None:
        """Prepare; nothing is connected before the first call.

        Args:
            url: the receiver.
            credentials: for the receiver.
            timeout: seconds that a call may take.
            server_name: the name in the certificate of the receiver; empty for the host of the URL.
        """
        self._url = f"{url}{'&' if '?' in url else '?'}timeout={timeout:g}s"
        self._credentials = credentials
        self._timeout = timeout
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._calls = asyncio.Semaphore(_CALLS)
        self._connections: Connections | None = None

    async def post(self, body: bytes) -> WebhookAnswer:
        """Send JSON and read the whole answer.

        Raises:
            CallError: there is no answer.
        """
        import httpcore  # noqa: PLC0415 - most servers have no webhooks, and the import takes tens of milliseconds

        try:
            async with asyncio.timeout(self._timeout), self._calls:
                return await self._post(body)
        except TimeoutError:
            raise CallTimeoutError(f'Post "{self._url}": context deadline exceeded') from None
        except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError) as error:
            raise CallResetError(f'Post "{self._url}": {str(error) or "EOF"}') from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.UnsupportedProtocol) as error:
            raise CallError(f'Post "{self._url}": {str(error) or type(error).__name__}') from None
        except CallError as error:
            raise CallError(f'Post "{self._url}": {error}') from None

    async def aclose(self) -> None:
        """Close the connections when the calls on them have ended."""
        if self._connections is not None:
            await self._connections.retire()

    async def _post(self, body: bytes) -> WebhookAnswer:
        begun = self._credentials.now()
        loaded = await self._credentials.current()
        connections = await self._connected(loaded.tls)
        headers = [
            ("Accept", "application/json, */*"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("User-Agent", f"kcp-py/{__version__}"),
            *loaded.headers,
        ]
        parts: list[bytes] = []
        size = 0
        async with (
            connections.used() as pool,
            pool.stream("POST", self._url, headers=headers, content=body, extensions=self._extensions) as response,
        ):
            async for part in response.aiter_stream():
                size += len(part)
                if size > _MAX_ANSWER_BYTES:
                    raise CallError(f"http: response body too large: limit is {_MAX_ANSWER_BYTES}")
                parts.append(part)
            if response.status == 401:
                self._credentials.refused(begun)
            retry = any(name.lower() == b"retry-after" and value.isdigit() and int(value) > 0 for name, value in response.headers)
            return WebhookAnswer(response.status, b"".join(parts), retry)

    async def _connected(self, tls: ssl.SSLContext | None) -> Connections:
        from kcp_py.egress.connections import Connections  # noqa: PLC0415 - it imports the HTTP library

        connections = self._connections
        if connections is None or connections.tls is not tls:
            replaced, self._connections = connections, Connections(tls, _CALLS)
            connections = self._connections
            if replaced is not None:
                await replaced.retire()
        return connections
