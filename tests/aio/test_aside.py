"""Work beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kcp_py.aio.aside import run_aside

pytestmark = pytest.mark.anyio


async def test_work_is_done_elsewhere_one_piece_at_a_time() -> None:
    """While the loop goes on, and always by the same thread; results and errors come back."""
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> int:
        begun.set()
        assert go_on.wait(30)
        return threading.get_ident()

    first, second = asyncio.ensure_future(run_aside(wait)), asyncio.ensure_future(run_aside(threading.get_ident))
    while not begun.is_set():
        await asyncio.sleep(0)
    assert not second.done()
    go_on.set()
    assert len({await first, await second, threading.get_ident()}) == 2
    with pytest.raises(ValueError, match="no"):
        await run_aside(int, "no")
