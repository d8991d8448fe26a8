"""A control plane on a port of this machine, with its kubeconfig."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kcp_py.controlplane import ControlPlane
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.options import Options
from kcp_py.serving.server import listen, serve

TOKEN = "secret"


def options_of(directory: Path, **more: Any) -> Options:
    """Options of a server in memory that knows one token, of an administrator."""
    tokens = directory / "tokens.csv"
    with tokens.open("w", newline="") as file:
        csv.writer(file).writerow([TOKEN, "admin", "1", "system:masters"])
    return Options(storage="memory", root_directory=directory, token_auth_file=tokens, namespace_deletion_grace=0, **more)


@asynccontextmanager
async def served(control_plane: ControlPlane, port: int = 0) -> AsyncIterator[KubeconfigContext]:
    """Serve a control plane that is entered, without TLS."""
    options = Options(secure_port=port, plain_http=True, shutdown_grace_period=1, max_request_header_bytes=1 << 20)
    listener = listen(options)
    ready, stop = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(control_plane.app, listener, options, tls=None, on_shutdown=control_plane.begin_shutdown, on_ready=ready.set, stop=stop)
    )
    taken = listener.getsockname()[1]
    await ready.wait()
    try:
        yield KubeconfigContext(Path("kubeconfig"), {"server": f"http://127.0.0.1:{taken}"}, {"token": TOKEN}, "admin")
    finally:
        stop.set()
        await serving
