"""The lifespan of an ASGI application as the context of a control plane."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any


async def run_lifespan(context: AbstractAsyncContextManager[Any], receive: Any, send: Any) -> None:
    """Enter a context when the server of the application starts, and leave it when that stops. A failure is told to the server."""
    await receive()
    try:
        await context.__aenter__()
    except Exception as error:
        await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
        raise
    await send({"type": "lifespan.startup.complete"})
    await receive()
    try:
        await context.__aexit__(None, None, None)
    except Exception as error:
        await send({"type": "lifespan.shutdown.failed", "message": f"{type(error).__name__}: {error}"})
        raise
    await send({"type": "lifespan.shutdown.complete"})
