"""A process tells the supervisor what it does, and does what it is told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from kcp_py.cli.workers.child import ALIVE, ANNOUNCE, ASK, ATTACH, ENDING, READY
from kcp_py.cli.workers.parent import Parent, answer_questions

TIMEOUT = 60

pytestmark = pytest.mark.anyio


class Ends:
    """A parent, the supervisor's end of its channel, and what the parent was told."""

    def __init__(self) -> None:
        self.supervisor, channel = socket.socketpair()
        self.told: asyncio.Queue[object] = asyncio.Queue()
        self.parent = Parent(channel, attach=self.told.put_nowait, announce=lambda: self.told.put_nowait("announced"))
        self.channel = channel

    def sent(self) -> bytes:
        """What the parent has sent so far."""
        self.supervisor.setblocking(False)
        return self.supervisor.recv(100)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    async with asyncio.timeout(TIMEOUT):
        yield ends
    ends.parent.close()
    ends.supervisor.close()
    ends.channel.close()


async def test_a_process_that_serves_says_so(ends: Ends) -> None:
    """The supervisor reads that it is ready, and later, once, that it ends."""
    ends.parent.ready()
    assert ends.sent() == READY
    ends.parent.end()
    ends.parent.end()
    assert ends.parent.stop.is_set()
    assert ends.sent() == ENDING


async def test_a_question_is_answered(ends: Ends) -> None:
    """The event loop says that it runs, as often as it is asked."""
    ends.supervisor.setblocking(True)
    for _ in range(2):
        ends.supervisor.send(ASK)
        assert await asyncio.to_thread(ends.supervisor.recv, 10) == ALIVE


async def test_sockets_of_other_processes_arrive(ends: Ends) -> None:
    """A socket that the supervisor sends is the one of another process; the announcement is a message without one."""
    mine, theirs = socket.socketpair()
    with mine:
        socket.send_fds(ends.supervisor, [ATTACH], [theirs.fileno()])
        theirs.close()
        attached = await ends.told.get()
        assert isinstance(attached, socket.socket)
        with attached:
            mine.send(b"hello")
            assert attached.recv(10) == b"hello"
    ends.supervisor.send(ANNOUNCE)
    assert await ends.told.get() == "announced"
    assert not ends.parent.stop.is_set()


async def test_the_end_of_the_supervisor_ends_a_process(ends: Ends) -> None:
    """A channel that closes is an order to end, and telling the supervisor fails without an error."""
    ends.supervisor.close()
    await ends.parent.stop.wait()
    ends.parent.ready()


async def test_a_signal_ends_a_process(ends: Ends) -> None:
    """SIGTERM to this process ends it in order, and the supervisor is told."""
    os.kill(os.getpid(), signal.SIGTERM)
    await ends.parent.stop.wait()
    assert ends.sent() == ENDING


async def test_questions_are_answered_before_there_is_a_parent() -> None:
    """A process that begins says that its event loop runs; then its parent does."""
    supervisor, channel = socket.socketpair()
    with supervisor, channel:
        answer_questions(channel)
        supervisor.setblocking(False)
        async with asyncio.timeout(TIMEOUT):
            for _ in range(2):
                supervisor.send(ASK)
                assert await asyncio.get_running_loop().sock_recv(supervisor, 100) == ALIVE
            parent = Parent(channel, attach=print, announce=print)
            supervisor.send(ASK)
            assert await asyncio.get_running_loop().sock_recv(supervisor, 100) == ALIVE
            parent.close()
