"""`Credentials`: the bearer token and the client certificate of a context, read again when their files may have changed.

Source: client-go reads a token file again after 50 seconds, and after a 401 that a request with the present token received
(`transport/token_source.go`); it keeps the last token that could be read. Certificates are read in the same turn here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from kcp_py.kubeconfig import (
    KubeconfigContext,
    KubeconfigError,
    TlsFiles,
    bearer_header,
    client_ssl_context,
    read_tls_files,
    read_token_file,
    token_header,
)
from kcp_py.kubeconfig.execplugin import has_plugin, run_plugin

READ_SECONDS: Final = 50.0
"""How long the content of the files is used before they are read again."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.kubeconfig")


class Loaded(NamedTuple):
    """Credentials as the files had them.

    Attributes:
        headers: with the bearer token; empty without one.
        tls: None for plain HTTP. Another object wherever certificate, key or authorities have changed.
    """

    headers: tuple[tuple[str, str], ...]
    tls: ssl.SSLContext | None


class Credentials:
    """The credentials of one context."""

    def __init__(
        self, context: KubeconfigContext, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        """Read them.

        Args:
            context: the server and the user.
            clock: seconds, for tests.
            wall: Unix seconds, for tests.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        self._context = context
        self._clock = clock
        self._wall = wall
        self._files: TlsFiles | None = None
        self._read_at = clock()
        self._due = False
        self._lock = asyncio.Lock()
        self._plugin = has_plugin(context)
        self._expires: float | None = None
        self._answered = False
        headers = () if self._plugin else tuple(token_header(context).items())
        tls = None
        if context.base_url.startswith("https:"):
            self._files = read_tls_files(context)
            tls = client_ssl_context(context, self._files)
        self._loaded = Loaded(headers, tls)
        # A token file wins over a token in the kubeconfig as soon as it can be read, as in client-go.
        self._due = self._plugin or bool(context.user.get("token") and context.user.get("tokenFile"))

    def now(self) -> float:
        """The time by which credentials are read again, for `refused`."""
        return self._clock()

    async def current(self) -> Loaded:
        """The credentials for a request that begins now. Files and programs that cannot be used leave the last ones in use.

        Raises:
            KubeconfigError: a program has not given any credential yet.
        """
        if self._is_due():
            async with self._lock:
                if self._is_due():
                    self._read_at, self._due = self._clock(), False
                    try:
                        self._loaded = await asyncio.to_thread(self._read)
                    except KubeconfigError as error:
                        if self._plugin and not self._answered:
                            self._due = True
                            raise
                        _log.warning("credentials_not_reloaded", error=str(error))
        return self._loaded

    def refused(self, sent_at: float) -> None:
        """The server has answered 401: read the files for the next request.

        Args:
            sent_at: when the request began. Credentials that were read later are kept.
        """
        if self._read_at <= sent_at:
            self._due = True

    def _is_due(self) -> bool:
        if self._plugin:
            return self._due or (self._expires is not None and self._wall() >= self._expires)
        return self._due or self._clock() - self._read_at >= READ_SECONDS

    def _read(self) -> Loaded:
        context, (headers, tls) = self._context, self._loaded
        if self._plugin:
            return self._run_plugin(tls)
        if context.user.get("tokenFile"):
            token = read_token_file(context)
            if not token:
                raise KubeconfigError(f"{context.file}: tokenFile: it is empty")
            headers = tuple(bearer_header(context, token).items())
        if tls is not None:
            files = read_tls_files(context)
            if files != self._files:
                tls = client_ssl_context(context, files)
                self._files = files
        return Loaded(headers, tls)

    def _run_plugin(self, tls: ssl.SSLContext | None) -> Loaded:
        """The credential of a program, which is run anew."""
        context = self._context
        credential = run_plugin(context)
        if tls is not None and credential.certificate is not None:
            files = read_tls_files(context)._replace(certificate=credential.certificate, key=credential.key)
            if files != self._files:
                tls = client_ssl_context(context, files)
                self._files = files
        self._expires, self._answered = credential.expires, True
        return Loaded(tuple(bearer_header(context, credential.token).items()) if credential.token else (), tls)
