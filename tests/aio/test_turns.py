"""Turns are taken one by one, in order, and are never lost."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio.turns import Turns

pytestmark = pytest.mark.anyio


async def test_tasks_take_turns_in_order() -> None:
    """One task at a time has the turn of a key; those of other keys do not wait."""
    turns = Turns()
    seen: list[str] = []

    async def work(name: str, key: str) -> None:
        await turns.take(key)
        seen.append(f"{name} begins")
        await asyncio.sleep(0)
        seen.append(f"{name} ends")
        turns.give(key)

    assert "a" not in turns
    await asyncio.gather(*(work(name, "a") for name in ("one", "two", "three")), work("other", "b"))
    assert [event for event in seen if "other" not in event] == [
        f"{name} {event}" for name in ("one", "two", "three") for event in ("begins", "ends")
    ]
    assert seen.index("other begins") < seen.index("one ends")
    assert "a" not in turns
    assert "b" not in turns


@pytest.mark.parametrize("given", [False, True])
async def test_a_cancelled_task_passes_its_turn_on(*, given: bool) -> None:
    """Whether or not it was given the turn before it has noticed that it is cancelled."""
    turns = Turns()
    await turns.take("a")
    waiting = [asyncio.create_task(turns.take("a")) for _ in range(2)]
    await asyncio.sleep(0)
    if given:
        turns.give("a")
    waiting[0].cancel()
    if not given:
        await asyncio.wait(waiting[:1])
        turns.give("a")
    await waiting[1]
    assert waiting[0].cancelled()
    assert "a" in turns
    turns.give("a")
    assert "a" not in turns
