"""A program that serves an embedded control plane over HTTPS until it is told to stop."""

import asyncio
import tempfile
from pathlib import Path

from kcp_py import ControlPlane, Options, serve


async def main() -> None:
    """Serve on a free port, and stop as soon as connections are accepted."""
    with tempfile.TemporaryDirectory() as directory:
        await run(Options(storage="memory", root_directory=Path(directory) / "root", secure_port=0))


async def run(options: Options) -> None:
    """Serve with these options."""
    stop = asyncio.Event()
    urls: list[str] = []

    def on_ready(url: str) -> None:
        urls.append(url)
        stop.set()

    async with ControlPlane(options) as control_plane:
        await serve(control_plane, on_ready=on_ready, stop=stop)
    (url,) = urls
    assert url.startswith("https://")
