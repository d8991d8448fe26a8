"""`serve_proxy`: a caching proxy on a port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

from kcp_py.options import Options
from kcp_py.proxy.application import CachingProxy
from kcp_py.serving import server
from kcp_py.serving.embedding import tls_of


async def serve_proxy(
    proxy: CachingProxy, options: Options, *, on_ready: Callable[[str], None] | None = None, stop: asyncio.Event | None = None
) -> None:
    """Serve until the program is told to stop.

    Args:
        proxy: entered.
        options: address, port, certificates and limits of connections.
        on_ready: called with the URL when connections are accepted.
        stop: set to stop; None stops at SIGTERM and SIGINT.

    Raises:
        ListenError: the address cannot be listened on.
        CertificateError: a certificate file cannot be used.
    """
    with contextlib.closing(server.listen(options)) as listener:
        taken = dataclasses.replace(options, secure_port=listener.getsockname()[1])
        async with tls_of(taken) as tls:
            await server.serve(
                proxy,
                listener,
                taken,
                tls=None if tls is None else tls.context,
                on_shutdown=proxy.end_watches,
                on_ready=lambda: on_ready(taken.external_url(taken.secure_port)) if on_ready is not None else None,
                stop=stop,
            )
