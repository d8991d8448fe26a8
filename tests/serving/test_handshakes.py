"""Which handshake begins when."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.serving.handshakes import BUSY, LONGEST_BREAK_SECONDS, HandshakeQueue
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio


class Times:
    """What has passed, and what the thread has worked, as a test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked = 0.0

    def clock(self) -> float:
        return self.now

    def spent(self) -> float:
        return self.worked


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def handshakes(times: Times) -> HandshakeQueue:
    return HandshakeQueue(clock=times.clock, spent=times.spent)


async def begun(task: asyncio.Task[None]) -> bool:
    """Whether a handshake begins without any time passing."""
    await until_idle()
    return task.done()


async def test_an_idle_server_does_not_wait(handshakes: HandshakeQueue, times: Times) -> None:
    """Where nothing was done since the last handshake, the next one begins at once."""
    for _ in range(3):
        await handshakes.turn("a")
        times.now += 0.001


@pytest.mark.parametrize(
    ("worked", "passed"),
    [
        pytest.param(0.003, 0.003 / BUSY, id="a part of the time is left to others"),
        pytest.param(1.0, LONGEST_BREAK_SECONDS, id="others cannot lock new clients out"),
    ],
)
async def test_a_busy_server_makes_a_break(handshakes: HandshakeQueue, times: Times, worked: float, passed: float) -> None:
    """The next handshake begins when the last one and what came with it have had their share of the time."""
    await handshakes.turn("a")
    times.worked += worked
    times.now += passed - 0.0005
    task = asyncio.create_task(handshakes.turn("a"))
    assert not await begun(task)
    times.now += 0.001
    await task


async def test_clients_take_turns(handshakes: HandshakeQueue, times: Times) -> None:
    """A client that has many connections waits for its own ones only; one that gave up is passed over."""
    await handshakes.turn("a")
    times.worked += 1
    order: list[str] = []

    async def shake(client: str) -> None:
        await handshakes.turn(client)
        order.append(client)

    tasks = [asyncio.create_task(shake(client)) for client in "aaaab"]
    gone = asyncio.create_task(shake("c"))
    assert not await begun(gone)
    assert handshakes.waiting == 6
    gone.cancel()
    times.now += LONGEST_BREAK_SECONDS
    await asyncio.wait(tasks)
    assert order == ["a", "b", "a", "a", "a"]
    assert handshakes.waiting == 0
