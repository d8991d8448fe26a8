"""Offloaded work: one thread, owners in turn."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from kcp_py.aio.offload import OFFLOAD_OWNER, offload

pytestmark = pytest.mark.anyio


async def test_work_runs_in_one_thread_one_piece_at_a_time() -> None:
    """The event loop continues meanwhile, the thread is always the same, and results and errors reach the caller."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> int:
        begun.set()
        assert go_on.wait(30)
        return threading.get_ident()

    first, second = asyncio.ensure_future(offload(wait)), asyncio.ensure_future(offload(threading.get_ident))
    while not begun.is_set():
        await asyncio.sleep(0)
    assert not second.done()
    go_on.set()
    assert len({await first, await second, threading.get_ident()}) == 2
    with pytest.raises(ValueError, match="no"):
        await offload(int, "no")


async def test_an_owner_with_many_pieces_delays_others_by_one_piece() -> None:
    """The first piece of another owner runs after at most one piece of the first owner; cancelled pieces are skipped."""
    begun, go_on, order = threading.Event(), threading.Event(), list[str]()

    async def ask(owner: str, piece: str) -> None:
        OFFLOAD_OWNER.set(owner)
        await offload(order.append, piece)

    def block() -> None:
        begun.set()
        assert go_on.wait(30)

    first = asyncio.ensure_future(offload(block))
    while not begun.is_set():
        await asyncio.sleep(0)
    pieces = [("a", f"a{at}") for at in range(5)] + [("b", "b0"), ("c", "c0"), ("b", "b1"), ("", "none")]
    waiting = [asyncio.ensure_future(ask(*piece)) for piece in pieces]
    await asyncio.sleep(0)
    waiting[2].cancel()
    await asyncio.sleep(0)
    go_on.set()
    await first
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["a0", "b0", "c0", "none", "a1", "b1", "a3", "a4"]
    assert [type(outcome) for outcome in outcomes].count(asyncio.CancelledError) == 1


class Document:
    """A value that can be referred to weakly."""


async def test_the_thread_keeps_neither_arguments_nor_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are freed with the last reference of the caller, even if the thread has not run again after it delivered the result."""
    loop, awaited, go_on = asyncio.get_running_loop(), threading.Event(), threading.Event()
    wake = loop.call_soon_threadsafe

    def work(_: Document) -> Document:
        assert awaited.wait(30)
        return Document()

    def wake_and_stay(callback: Callable[..., Any], *args: Any) -> None:
        wake(callback, *args)
        assert go_on.wait(30)

    monkeypatch.setattr(loop, "call_soon_threadsafe", wake_and_stay)
    argument = Document()
    argument_left = weakref.ref(argument)
    # The thread delivers a result only if the caller waits for it by then.
    loop.call_soon(awaited.set)
    result = await offload(work, argument)
    result_left = weakref.ref(result)
    del argument, result
    left = argument_left(), result_left()
    go_on.set()
    assert left == (None, None)
