"""The HTTPS server of tests."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tests.egress.https import HttpsServer, Request, issue

pytestmark = pytest.mark.anyio


async def silent(request: Request) -> bytes:
    del request
    return b""


async def test_a_connection_in_its_handshake_ends_with_the_server(tmp_path: Path) -> None:
    """It would be found unclosed during a later test, which would fail."""
    async with HttpsServer(issue(tmp_path, "127.0.0.1"), silent) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    with closing(writer):
        async with asyncio.timeout(60):
            assert await reader.read() == b""


async def test_a_connection_that_is_not_accepted_yet_ends_with_the_server(tmp_path: Path) -> None:
    """So does one that the kernel alone has accepted."""
    async with HttpsServer(issue(tmp_path, "127.0.0.1"), silent) as server, asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.open_connection("127.0.0.1", server.port)) for _ in range(8)]
    for task in tasks:
        reader, writer = task.result()
        with closing(writer):
            async with asyncio.timeout(60):
                try:
                    assert await reader.read() == b""
                except ConnectionResetError:
                    continue
