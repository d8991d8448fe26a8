"""A control plane on a port of this machine, and what a kubeconfig would say of it."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from kcp_py.controlplane import ControlPlane
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.options import Options
from kcp_py.serving.protocol import connection_class

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
    config = uvicorn.Config(
        control_plane.app,
        port=port,
        http=connection_class(max_head_bytes=1 << 20, head_timeout=30),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    taken = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield KubeconfigContext(Path("kubeconfig"), {"server": f"http://127.0.0.1:{taken}"}, {"token": TOKEN}, "admin")
    finally:
        control_plane.begin_shutdown()
        await server.shutdown()
