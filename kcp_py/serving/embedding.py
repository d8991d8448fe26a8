"""`serve`: a control plane on a port, for programs that embed one."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Callable

from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.serving import server
from kcp_py.serving.certificates import ensure_certificates
from kcp_py.serving.renewal import maintain_certificates
from kcp_py.serving.tls import ReloadingContext


async def serve(control_plane: ControlPlane, *, on_ready: Callable[[str], None] | None = None, stop: asyncio.Event | None = None) -> None:
    """Serve a control plane over HTTPS on the address and port of its options, until the program is told to stop.

    The certificates are those of the options. Without any the server makes an authority, a serving certificate and a client certificate of
    an administrator in `Options.pki_directory`, renews them, and takes replaced files into use. Clients may present a certificate of
    this authority or of `Options.client_ca_file`: the common name is the user, the organizations are the groups.

    A stop is orderly: readiness fails, watches end, requests in flight have `Options.shutdown_grace_period` to finish.

    Args:
        control_plane: entered.
        on_ready: called with the URL when connections are accepted.
        stop: set to stop. None stops at SIGTERM and SIGINT, which needs the main thread; a second signal then ends the process at once.

    Raises:
        ListenError: the address cannot be listened on.
        CertificateError: a certificate file cannot be used.
        OSError: a certificate cannot be written.
    """
    with contextlib.closing(server.listen(control_plane.options)) as listener:
        # The port that was taken, where a free one was asked for.
        options = dataclasses.replace(control_plane.options, secure_port=listener.getsockname()[1])
        async with tls_of(options) as tls:
            await server.serve(
                control_plane.app,
                listener,
                options,
                tls=None if tls is None else tls.context,
                on_shutdown=control_plane.begin_shutdown,
                on_ready=lambda: on_ready(options.external_url(options.secure_port)) if on_ready is not None else None,
                stop=stop,
            )


@contextlib.asynccontextmanager
async def tls_of(options: Options) -> AsyncIterator[ReloadingContext | None]:
    """The TLS side of the server, whose certificates are kept up to date within it; None where the options ask for plain HTTP."""
    if options.plain_http:
        yield None
        return
    await asyncio.to_thread(ensure_certificates, options, now=dt.datetime.now(dt.UTC))
    tls = ReloadingContext(options)
    maintaining = asyncio.create_task(maintain_certificates(options, tls, on_issued=_nothing))
    try:
        yield tls
    finally:
        maintaining.cancel()
        await asyncio.wait([maintaining])


def _nothing() -> None:
    """The program needs no copy of renewed certificates."""
