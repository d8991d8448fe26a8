from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.server.disconnection import ON_DISCONNECT, DisconnectWatch
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio


async def no_message() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_server_that_offers_registration():
    """Every function is called once, in the order in which they came; a registration is taken back at the end."""
    registered: list[Any] = []
    called: list[str] = []

    def register(callback):
        registered.append(callback)
        return lambda: registered.remove(callback)

    watch = DisconnectWatch({ON_DISCONNECT: register}, no_message, lambda: called.append("first"))
    watch.add(lambda: called.append("second"))
    registered[0]()
    registered[0]()
    assert called == ["first", "second"]
    watch.stop()
    watch.stop()
    assert not registered


async def test_a_server_without_registration():
    """The channel is read until it reports the end."""
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return next(messages)

    gone = asyncio.Event()
    DisconnectWatch({}, receive, gone.set)
    async with asyncio.timeout(30):
        await gone.wait()


async def test_nothing_is_called_after_the_end():
    """The task that reads the channel ends, too."""
    called: list[str] = []
    watch = DisconnectWatch({}, no_message, lambda: called.append("gone"))
    await until_idle()
    watch.stop()
    await until_idle()
    assert not called
    assert "watch for disconnect" not in {task.get_name() for task in asyncio.all_tasks()}
