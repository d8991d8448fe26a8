"""The tracer of a server, from its options."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kcp_py.options import OptionsError

if TYPE_CHECKING:
    from kcp_py.tracing.tracer import Tracer


async def start_tracing(path: Path | None, stack: AsyncExitStack) -> Tracer | None:
    """The tracer by the file of the options; None without one. The stack exports what waits at the end.

    Raises:
        OptionsError: the file is wrong, or the extra `otel` is not installed.
    """
    if path is None:
        return None
    tracer = await asyncio.to_thread(_connect, path)

    async def close() -> None:
        await asyncio.to_thread(tracer.close)

    stack.push_async_callback(close)
    return tracer


def _connect(path: Path) -> Tracer:
    from kcp_py.tracing.configuration import FLAG, read_tracing_configuration  # noqa: PLC0415 (idle servers do without)
    from kcp_py.tracing.tracer import connect  # noqa: PLC0415

    configuration = read_tracing_configuration(path)
    try:
        return connect(configuration)
    except ImportError as error:
        needed = "needs OpenTelemetry; install it with the extra otel: pip install 'kcp-py[otel]'"
        raise OptionsError(f"{FLAG} {needed} ({error})") from error
