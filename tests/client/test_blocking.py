"""Clients for threads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.client.blocking import BlockingClient

pytestmark = pytest.mark.anyio


class Counting:
    """Stands for a client."""

    cluster = "team-a"

    def __init__(self) -> None:
        self.count = 0

    async def add(self, number: int, *, times: int = 1) -> int:
        self.count += number * times
        return self.count

    async def fail(self) -> None:
        raise KeyError("no")


async def test_methods_wait_for_their_answers_until_the_work_has_ended() -> None:
    """Errors come out; afterwards nothing is sent any more."""
    counting: Any = Counting()
    client = BlockingClient(counting, asyncio.get_running_loop())
    assert client.cluster == "team-a"
    assert await asyncio.to_thread(client.add, 2, times=3) == 6
    with pytest.raises(KeyError):
        await asyncio.to_thread(client.fail)
    client.end()
    with pytest.raises(RuntimeError, match="this work has ended"):
        await asyncio.to_thread(client.add, 1)
    assert counting.count == 6
