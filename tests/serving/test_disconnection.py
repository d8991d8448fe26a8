"""Callbacks of a connection are called when its client leaves, and not otherwise."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.serving.disconnection import DisconnectCallbacks


@pytest.mark.anyio
async def test_callbacks_are_called_once():
    """Those that are registered when the client leaves are called in their order, and not again at the end of the connection."""
    calls: list[str] = []
    callbacks = DisconnectCallbacks(asyncio.get_running_loop())
    callbacks.register(lambda: calls.append("first"))
    callbacks.register(lambda: calls.append("taken back"))()
    callbacks.register(lambda: calls.append("second"))
    assert not callbacks.called
    callbacks.call()
    callbacks.call()
    assert callbacks.called
    assert calls == ["first", "second"]


@pytest.mark.anyio
async def test_a_late_callback_is_called_soon():
    """One that is registered after the client has left is called in the next turn of the loop; taking it back changes nothing."""
    calls: list[str] = []
    callbacks = DisconnectCallbacks(asyncio.get_running_loop())
    callbacks.call()
    take_back = callbacks.register(lambda: calls.append("late"))
    assert calls == []
    take_back()
    await asyncio.sleep(0)
    assert calls == ["late"]
