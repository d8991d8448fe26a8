"""What the tests of the HTTP edge share."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kcp_py.options import Options
from kcp_py.serving.certificates import ensure_certificates
from kcp_py.serving.server import listen, serve
from tests.serving.edge import Edge


@pytest.fixture
def options(tmp_path):
    """Options of a server with a root directory of its own on a free port."""
    return Options(root_directory=tmp_path / "root", secure_port=0, shutdown_grace_period=5)


@pytest.fixture
def certified(options):
    """Options of a server with certificates that are made now."""
    ensure_certificates(options, now=dt.datetime.now(dt.UTC))
    return options


@pytest.fixture
def client_context():
    """Makes TLS contexts of clients."""

    def make(options, *, certificate: bool = False, authority: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=authority or options.ca_file)
        if certificate:
            context.load_cert_chain(options.pki_directory / "admin.crt", options.pki_directory / "admin.key")
        return context

    return make


@contextlib.asynccontextmanager
async def _serving(app, options, *, tls=None, on_shutdown=lambda: None):
    """Serves an app within it and yields the port; leaves as the process does, by SIGTERM."""
    listener = listen(options)
    ready = asyncio.Event()
    task = asyncio.create_task(serve(app, listener, options, tls=tls, on_shutdown=on_shutdown, on_ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()
    try:
        yield listener.getsockname()[1]
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await task


@pytest.fixture
def serving():
    """An async context manager that serves an app within it: `async with serving(app, options, tls=…) as port`."""
    return _serving


@pytest.fixture
async def edge() -> AsyncIterator[Edge]:
    """A connection on a wire in memory."""
    made = Edge()
    yield made
    await made.close()
