from __future__ import annotations

import asyncio
import time

import pytest

from kcp_py.aio.turns import Turns

pytestmark = pytest.mark.anyio


async def test_others_get_a_turn_when_a_slice_is_used_up(monkeypatch):
    """Work goes on without a pause until its slice is over, and gets another one after the pause."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    turns = Turns()
    others: list[float] = []
    waiting = asyncio.ensure_future(_note(others))
    now = 0.004
    await turns.take()
    assert others == []
    now = 0.006
    await turns.take()
    await waiting
    assert others == [0.006]
    now = 0.010
    waiting = asyncio.ensure_future(_note(others))
    await turns.take()
    assert others == [0.006]
    await waiting


async def _note(others: list[float]) -> None:
    others.append(time.monotonic())
