"""A program that serves a control plane, with clients that have certificates."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl

import httpx
import pytest

import kcp_py
from kcp_py.serving.server import ListenError

pytestmark = pytest.mark.anyio

NAMESPACES = "/clusters/team-a/api/v1/namespaces"


@pytest.fixture
def memory(options):
    """Options of a control plane in memory."""
    return dataclasses.replace(options, storage="memory", anonymous_auth=False)


class Running:
    """`kcp_py.serve` in a task, until the test ends."""

    def __init__(self, control_plane):
        self.stop = asyncio.Event()
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(kcp_py.serve(control_plane, on_ready=self._ready.set_result, stop=self.stop))

    async def __aenter__(self):
        self._task.add_done_callback(lambda _: self._ready.cancel())
        self.url = await self._ready
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self._task


def trusting(options, *, certificate=False):
    """The TLS context of a client."""
    context = ssl.create_default_context(cafile=options.ca_file)
    if certificate:
        context.load_cert_chain(options.pki_directory / "admin.crt", options.pki_directory / "admin.key")
    return context


async def test_a_client_certificate_is_an_identity(memory):
    """The administrator's certificate that the first start makes lets a client in; a client without one is not known."""
    async with kcp_py.ControlPlane(memory) as control_plane, Running(control_plane) as running:
        assert running.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusting(memory, certificate=True), base_url=running.url) as client:
            assert (await client.get(NAMESPACES)).status_code == 200
        async with httpx.AsyncClient(verify=trusting(memory), base_url=running.url) as client:
            assert (await client.get(NAMESPACES)).status_code == 401
            assert (await client.get("/readyz")).status_code == 401


async def test_plain_http(memory):
    """Options that ask for it serve without TLS, and no certificates are made."""
    plain = dataclasses.replace(memory, plain_http=True, anonymous_auth=True)
    async with kcp_py.ControlPlane(plain) as control_plane, Running(control_plane) as running, httpx.AsyncClient() as client:
        port = running.url.rpartition(":")[2]
        assert (await client.get(f"http://127.0.0.1:{port}/readyz")).text == "ok"
    assert not plain.pki_directory.exists()


async def test_a_stop_is_orderly(memory):
    """Readiness fails, and the port is free again."""
    async with kcp_py.ControlPlane(memory) as control_plane:
        async with Running(control_plane) as running:
            port = int(running.url.rpartition(":")[2])
        assert control_plane.backend.shutting_down
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", port))


async def test_a_port_in_use(memory):
    """The error names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = dataclasses.replace(memory, secure_port=taken.getsockname()[1])
        async with kcp_py.ControlPlane(options) as control_plane:
            with pytest.raises(ListenError, match="the port is in use"):
                await kcp_py.serve(control_plane)
