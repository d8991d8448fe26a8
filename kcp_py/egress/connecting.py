"""Connections to checked addresses, and TLS. Imported at the first call, because it imports the HTTP library."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import httpcore

from kcp_py.aio.budget import BudgetExceededError, FairBudget
from kcp_py.egress.endpoint import ATTEMPT, CallError, Service, ServiceResolver
from kcp_py.egress.networks import Networks

_RESOLVING_THREADS: Final = 128
"""Separate threads, so that a name server that does not answer delays only calls. They are started as needed."""
_LOOKUPS_PER_TENANT: Final = 2
"""Lookups that one tenant has at a time, also those that it does not wait for any more: they last as long as a name server hangs."""
_WAITING_LOOKUPS: Final = 200
"""Of one tenant."""
_ANY_NUMBER: Final = 1_000_000
"""Those who wait are bounded for each tenant alone, so that some tenants cannot take all places in the queue."""
_MAX_ADDRESSES: Final = 16

_VERIFY_TEXTS: Final = {
    7: "x509: certificate signed by unknown authority",
    10: "x509: certificate has expired or is not yet valid",
    9: "x509: certificate has expired or is not yet valid",
    18: "x509: certificate signed by unknown authority",
    19: "x509: certificate signed by unknown authority",
    20: "x509: certificate signed by unknown authority",
    21: "x509: certificate signed by unknown authority",
}
"""OpenSSL's code of an invalid certificate -> the message of Go's `crypto/x509`."""


class Connector:
    """Resolves hosts and services to addresses."""

    def __init__(self, networks: Networks, services: ServiceResolver | None, tenant_services: ServiceResolver | None = None) -> None:
        self._networks = networks
        self._services = services
        self._tenant_services = tenant_services
        self._threads = ThreadPoolExecutor(_RESOLVING_THREADS, thread_name_prefix="resolve")
        self._lookups = FairBudget(_RESOLVING_THREADS, _LOOKUPS_PER_TENANT, queue=_WAITING_LOOKUPS, queues=_ANY_NUMBER)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def addresses(self, host: str, port: int, tenant: str = "") -> list[str]:
        """The addresses of a host that may be called.

        Args:
            host: a name or an address.
            port: where it is called.
            tenant: whose lookups wait for each other; without one, those of the same host do.

        Raises:
            CallError: the name is unknown, or none of its addresses may be called.
        """
        try:
            found = [str(ipaddress.ip_address(host))]
        except ValueError:
            found = await self._resolved(host, port, tenant)
        allowed = [address for address in found if self._networks.allow(address)]
        if not allowed:
            # The message omits the addresses, because tenants must not learn names of the operator's network.
            raise CallError(f"dial tcp: {host} is in no network that webhooks may reach")
        return allowed[:_MAX_ADDRESSES]

    async def service(self, service: Service) -> tuple[list[str], int]:
        """The addresses of a service that may be called, and its port.

        Raises:
            CallError: the service does not exist, or none of its addresses may be called.
        """
        if self._services is not None and (found := await self._services(service)) is not None:
            # The operator chose this address, in whatever network it is.
            return [found[0]], found[1]
        if self._tenant_services is not None and (found := await self._tenant_services(service)) is not None:
            host, port = found
            return await self.addresses(host, port, service.cluster), port
        raise CallError(f'service "{service.name}" not found')

    async def _resolved(self, host: str, port: int, tenant: str) -> list[str]:
        owner = tenant or f"/{host}"
        try:
            await self._lookups.acquire(owner, 1)
        except BudgetExceededError:
            raise CallError(f"dial tcp: lookup {host}: i/o timeout") from None
        loop = asyncio.get_running_loop()
        lookup = self._threads.submit(_look_up, host, port)

        def ended(_: Future[list[str]]) -> None:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(self._lookups.release, owner, 1)

        # The thread goes on where the call is given up.
        lookup.add_done_callback(ended)
        try:
            found = await asyncio.wrap_future(lookup)
        except (OSError, UnicodeError):
            raise CallError(f"dial tcp: lookup {host}: no such host") from None
        return list(dict.fromkeys(found))


def _look_up(host: str, port: int) -> list[str]:
    return [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to checked addresses only. The certificate is verified for the name."""

    def __init__(self, connector: Connector, service: Service | None, tenant: str) -> None:
        self._connector = connector
        self._service = service
        self._tenant = tenant
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that accepts the connection.

        Raises:
            CallError: no address accepts it, or none may be called.
        """
        del local_address
        if (attempt := ATTEMPT.get()) is not None:
            attempt.connected = True
        if self._service is not None:
            addresses, port = await self._connector.service(self._service)
            host = addresses[0]
        else:
            addresses = await self._connector.addresses(host, port, self._tenant)
        problem = ""
        for address in addresses:
            try:
                return _Opening(await self._network.connect_tcp(address, port, timeout=timeout, socket_options=socket_options))
            except httpcore.ConnectError as error:
                shown = f"[{address}]" if ":" in address else address
                problem = f"dial tcp {shown}:{port}: connect: {_reason(error)}"
            except httpcore.ConnectTimeout:
                problem = f"dial tcp: {host}: i/o timeout"
        raise CallError(problem)

    async def connect_unix_socket(self, path: str, timeout: float | None = None, socket_options: Any = None) -> httpcore.AsyncNetworkStream:
        """Unix sockets are not allowed as endpoints."""
        del timeout, socket_options
        raise CallError(f"dial unix {path}: not allowed")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class _Opening(httpcore.AsyncNetworkStream):
    """A connection that has no TLS yet. It is closed where its handshake is given up, which the library does for errors only."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Shake hands."""
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            await self._stream.aclose()
            raise

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


def _reason(error: BaseException) -> str:
    """The message of the operating system, as Go prints it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
        cause = cause.__cause__ or cause.__context__
    return "connection refused"


def tls_failure(error: BaseException, host: str) -> str:
    """The message of Go for a failed TLS handshake."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = _VERIFY_TEXTS.get(cause.verify_code)
            if text is None:
                text = f"x509: certificate is not valid for {host}" if "match" in cause.verify_message else f"x509: {cause.verify_message}"
            return f"tls: failed to verify certificate: {text}"
        if isinstance(cause, ssl.SSLError):
            return "remote error: tls: handshake failure"
        cause = cause.__cause__ or cause.__context__
    return "EOF"


def client_context(authorities: bytes) -> ssl.SSLContext:
    """Settings for TLS 1.2 and later that trust `authorities`, or the authorities of the system if none are given.

    Raises:
        CallError: the authorities are not certificates.
    """
    try:
        context = ssl.create_default_context(cadata=authorities.decode("ascii") if authorities else None)
    except (ssl.SSLError, ValueError):
        raise CallError("unable to load root certificates: unable to parse bytes as PEM block") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    # As Go: a trusted certificate needs no trusted issuer, and old forms of extensions are accepted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
