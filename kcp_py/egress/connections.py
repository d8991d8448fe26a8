"""`Connections`: connections to a server of the operator, with one TLS context."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

import httpcore

_IDLE_SECONDS: Final = 60.0


class Connections:
    """The connections with one TLS context, and how many requests use them."""

    def __init__(self, tls: ssl.SSLContext | None, limit: int, *, proxy: str = "") -> None:
        """Open no connection yet.

        Args:
            tls: None for plain HTTP.
            limit: the number of connections, of those in use and of those that are kept.
            proxy: URL of an HTTP proxy, with a name and a password where it wants them; empty for none.
        """
        self.tls = tls
        self.pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limit,
            max_keepalive_connections=limit,
            keepalive_expiry=_IDLE_SECONDS,
            proxy=_proxy(proxy) if proxy else None,
        )
        self._users = 0
        self._retired = False

    @asynccontextmanager
    async def used(self) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        """Within it, a request uses the connections."""
        self._users += 1
        try:
            yield self.pool
        finally:
            self._users -= 1
            await self._close_if_done()

    async def retire(self) -> None:
        """Take no further request, and close the connections when no request uses them any more."""
        self._retired = True
        await self._close_if_done()

    async def _close_if_done(self) -> None:
        if self._retired and not self._users:
            await self.pool.aclose()


def _proxy(url: str) -> httpcore.Proxy:
    parts = urlsplit(url)
    auth = (unquote(parts.username or "").encode(), unquote(parts.password or "").encode()) if parts.username else None
    return httpcore.Proxy(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), auth=auth)
