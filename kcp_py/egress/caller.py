"""`Caller`: requests to HTTPS endpoints that tenants name.

A name is resolved once per connection, all its addresses are checked, and the connection goes to the checked address. A name that
changes in the meantime therefore cannot lead to another address. Endpoints share connections and TLS settings only if their origins and
authorities are equal in every byte.

A redirect is followed if it keeps the method and leads to the same origin: envtest writes URLs with two slashes, from which Go's
multiplexer leads to the path with one. No other redirect is followed, as it could lead to an address that the caller of a webhook may not
choose.

The messages of `CallError` are those of Go's `net/http`, as in kube-apiserver.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from kcp_py._version import __version__
from kcp_py.aio.budget import FairBudget
from kcp_py.egress.endpoint import ATTEMPT, Answer, Attempt, CallError, Endpoint, Service, ServiceResolver
from kcp_py.egress.networks import Networks

if TYPE_CHECKING:
    import ssl

    import httpcore

    from kcp_py.egress.connecting import Connector

TIMEOUT_SECONDS: Final = 30.0
"""The duration of a whole call, as in upstream's client of conversion webhooks."""

_POOLS: Final = 200
"""The number of endpoints whose connections are kept, as upstream's number of clients."""
_CONNECTIONS_PER_POOL: Final = 16
_CALLS: Final = 256
"""Concurrent calls without a tenant to all endpoints."""
_TENANT_CALLS: Final = 64
"""Concurrent calls of one tenant to all of its endpoints. Further calls wait."""
_ALL_TENANT_CALLS: Final = 4096
"""Concurrent calls of all tenants: as many descriptors are in use. At this number tenants take turns."""
_ANY_NUMBER: Final = 1_000_000
"""The callers bound the calls that wait."""
_PATIENCE_SECONDS: Final = 3600.0
"""Longer than any timeout of a call, which includes the time in the queue."""
_IDLE_SECONDS: Final = 60.0
_REDIRECTS: Final = 10
"""As Go's client."""
_SAME_REQUEST: Final = frozenset((307, 308))
"""Redirects that keep method and body."""


class Caller:
    """Calls endpoints: a bounded number at a time, for a bounded time each, over persistent connections."""

    def __init__(
        self,
        networks: Networks,
        *,
        services: ServiceResolver | None = None,
        tenant_services: ServiceResolver | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Prepare calls. No module is imported and no connection is opened before the first call.

        Args:
            networks: the networks that may be reached.
            services: resolves services by the word of the operator. Its results are called even outside of the allowed networks.
            tenant_services: resolves the services that `services` does not know, by the word of tenants. Its results are checked as URLs
                are. Without both, services are refused.
            timeout: seconds that a call may take, including the time in the queue.
        """
        self._networks = networks
        self._services = services
        self._tenant_services = tenant_services
        self._timeout = timeout
        self._calls = asyncio.Semaphore(_CALLS)
        self._tenant_calls = FairBudget(_ALL_TENANT_CALLS, _TENANT_CALLS, queue=_ANY_NUMBER, queues=_ANY_NUMBER, patience=_PATIENCE_SECONDS)
        self._pools: OrderedDict[tuple[str, bytes, Service | None, str], _Pool] = OrderedDict()
        self._connector: Connector | None = None
        self._contexts: dict[bytes, asyncio.Task[ssl.SSLContext]] = {}

    async def post(self, endpoint: Endpoint, body: bytes, *, max_bytes: int, timeout: int = 0, tenant: str = "") -> Answer:
        """Send JSON and read the whole answer.

        Args:
            endpoint: the receiver.
            body: JSON.
            max_bytes: the maximum size of the body of the answer.
            timeout: seconds that the call may take; 0 for those of the constructor.
            tenant: shares neither connections nor bounds on concurrent calls and lookups of names with other tenants.

        Raises:
            CallError: the connection or its TLS failed, or the answer was late or too large.
        """
        request = _Request(max_bytes, body, timeout=timeout, tenant=tenant)
        return await self._call(endpoint, f"{endpoint.url}?timeout={timeout or self._timeout:g}s", request)

    async def get(self, endpoint: Endpoint, *, max_bytes: int, bearer: str = "") -> Answer:
        """Read a document.

        Args:
            endpoint: the server.
            max_bytes: the maximum size of the document.
            bearer: a token that the server wants, in ASCII; empty for none.

        Raises:
            CallError: the connection or its TLS failed, or the answer was late or too large.
        """
        return await self._call(endpoint, endpoint.url, _Request(max_bytes, bearer=bearer))

    async def _call(self, endpoint: Endpoint, url: str, request: _Request) -> Answer:
        if not url.isascii() or not url.startswith("https://"):
            raise CallError("net/http: invalid URL")
        method = "Get" if request.body is None else "Post"
        try:
            if request.tenant:
                async with asyncio.timeout(request.timeout or self._timeout):
                    await self._tenant_calls.acquire(request.tenant, 1)
                    try:
                        return await self._send(endpoint, url, request)
                    finally:
                        self._tenant_calls.release(request.tenant, 1)
            async with asyncio.timeout(request.timeout or self._timeout), self._calls:
                return await self._send(endpoint, url, request)
        except TimeoutError:
            reason = "" if request.timeout else " (Client.Timeout exceeded while awaiting headers)"
            raise CallError(f'{method} "{url}": context deadline exceeded{reason}') from None
        except CallError as error:
            raise CallError(f'{method} "{url}": {error}') from None

    async def _send(self, endpoint: Endpoint, url: str, request: _Request) -> Answer:
        import httpcore  # noqa: PLC0415 - most servers make no calls, and the import takes tens of milliseconds

        try:
            pool = await self._pool_of(endpoint, request.tenant)
        except ValueError:
            raise CallError("net/http: invalid URL") from None
        attempt = Attempt()
        ATTEMPT.set(attempt)
        try:
            try:
                return await _exchange(pool.connections, url, request)
            except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                # The endpoint may have closed a persistent connection while it was idle. Go's transport retries in this case, too.
                # A request on a new connection may have been carried out.
                if attempt.connected:
                    raise
                return await _exchange(pool.connections, url, request)
        except httpcore.RemoteProtocolError as error:
            raise CallError(_protocol_failure(str(error))) from None
        except (httpcore.ReadError, httpcore.WriteError):
            raise CallError("EOF") from None
        except httpcore.ConnectError as error:
            from kcp_py.egress.connecting import tls_failure  # noqa: PLC0415 - as above

            raise CallError(tls_failure(error, urlsplit(endpoint.url).hostname or "")) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, httpcore.UnsupportedProtocol) as error:
            raise CallError(f"net/http: {error}") from None
        except ValueError:
            raise CallError("net/http: invalid URL") from None
        finally:
            await self._release(pool)

    async def aclose(self) -> None:
        """Close every connection."""
        for task in self._contexts.values():
            task.cancel()
        self._contexts.clear()
        while self._pools:
            _, pool = self._pools.popitem()
            with suppress(RuntimeError):  # still in use by a request that outlives the server
                await pool.connections.aclose()
        if self._connector is not None:
            self._connector.close()

    async def _pool_of(self, endpoint: Endpoint, tenant: str) -> _Pool:
        """The connections of an endpoint, marked as used."""
        parts = urlsplit(endpoint.url)
        key = (f"{parts.scheme}://{parts.netloc}", endpoint.authorities, endpoint.service, tenant)
        pool = self._pools.get(key)
        if pool is None:
            context = await self._context_of(endpoint.authorities)
            pool = self._pools.get(key) or self._new_pool(endpoint, context, tenant)
            self._pools[key] = pool
        self._pools.move_to_end(key)
        pool.users += 1
        return pool

    async def _release(self, pool: _Pool) -> None:
        """Record the end of a call, and close the least recently used connections beyond the bound."""
        pool.users -= 1
        while len(self._pools) > _POOLS:
            unused = next((key for key, other in self._pools.items() if not other.users), None)
            if unused is None:
                return
            await self._pools.pop(unused).connections.aclose()

    def _new_pool(self, endpoint: Endpoint, context: ssl.SSLContext, tenant: str) -> _Pool:
        import httpcore  # noqa: PLC0415 - as above

        from kcp_py.egress.connecting import CheckedNetwork, Connector  # noqa: PLC0415 - as above

        if self._connector is None:
            self._connector = Connector(self._networks, self._services, self._tenant_services)
        service = endpoint.service
        if service is not None:
            service = service._replace(cluster=tenant)
        return _Pool(
            httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=_CONNECTIONS_PER_POOL,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=CheckedNetwork(self._connector, service, tenant),
            )
        )

    async def _context_of(self, authorities: bytes) -> ssl.SSLContext:
        """The TLS settings, created in a thread because authorities may be numerous or hostile."""
        from kcp_py.egress.connecting import client_context  # noqa: PLC0415 - as above

        task = self._contexts.get(authorities)
        if task is None:
            task = self._contexts[authorities] = asyncio.ensure_future(asyncio.to_thread(client_context, authorities))

            def made(done: asyncio.Task[ssl.SSLContext]) -> None:
                # The system's settings are kept, because reading them is slow. Others live as long as the connections that use them.
                if authorities or done.cancelled() or done.exception() is not None:
                    self._contexts.pop(authorities, None)

            task.add_done_callback(made)
        return await asyncio.shield(task)


class _Request(NamedTuple):
    """POST with a body, GET without one."""

    max_bytes: int
    """The maximum size of the body of the answer."""
    body: bytes | None = None
    bearer: str = ""
    timeout: int = 0
    """Seconds; 0 for those of the caller."""
    tenant: str = ""


class _Pool:
    """Persistent connections, and the number of calls that use them."""

    __slots__ = ("connections", "users")

    def __init__(self, connections: httpcore.AsyncConnectionPool) -> None:
        self.connections = connections
        self.users = 0


_HEADERS: Final = (
    (b"Accept", b"application/json, */*"),
    (b"User-Agent", f"kcp-py/{__version__}".encode()),
)


def _protocol_failure(text: str) -> str:
    """The message of Go for what h11 reports about a response."""
    if "without sending a response" in text:
        return "EOF"
    if "incomplete" in text or "complete message body" in text:
        return "unexpected EOF"
    return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"


async def _exchange(connections: httpcore.AsyncConnectionPool, url: str, request: _Request) -> Answer:
    for _ in range(_REDIRECTS):
        answer, location = await _exchange_once(connections, url, request)
        if location is None:
            return answer
        target = urljoin(url, location)
        if urlsplit(target)[:2] != urlsplit(url)[:2] or not target.isascii():
            return answer
        url = target
    raise CallError(f"stopped after {_REDIRECTS} redirects")


async def _exchange_once(connections: httpcore.AsyncConnectionPool, url: str, request: _Request) -> tuple[Answer, str | None]:
    """The answer, and where it sends the same request."""
    method, headers, body, max_bytes = "GET", [*_HEADERS], request.body, request.max_bytes
    if request.bearer:
        headers.append((b"Authorization", b"Bearer " + request.bearer.encode("ascii")))
    if body is not None:
        method = "POST"
        headers += [(b"Content-Type", b"application/json"), (b"Content-Length", str(len(body)).encode())]
    parts: list[bytes] = []
    size = 0
    async with connections.stream(method, url, headers=headers, content=body) as response:
        async for part in response.aiter_stream():
            size += len(part)
            if size > max_bytes:
                raise CallError(f"http: response body too large: limit is {max_bytes}")
            parts.append(part)
        location = None
        if response.status in _SAME_REQUEST:
            location = next((value.decode("latin-1") for name, value in response.headers if name.lower() == b"location"), None)
        return Answer(response.status, b"".join(parts)), location
