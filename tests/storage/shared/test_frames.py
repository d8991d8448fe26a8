"""Messages are cut out of what arrives, however it was cut on its way."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kcp_py.storage.shared.frames import LARGEST, Frames
from kcp_py.storage.shared.messages import HEAD, message

TIMEOUT = 60


class Receiver:
    """A connection, and what has come over it."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.lost = asyncio.Event()
        self.changed = asyncio.Event()

    async def connect(self, connected: socket.socket) -> Frames:
        """Use a socket."""
        return await Frames.over(connected, self.receive, self.lost.set)

    def receive(self, kind: int, data: bytes) -> None:
        """A message."""
        self.messages.append((kind, data))
        self.changed.set()

    async def received(self, count: int) -> list[tuple[int, bytes]]:
        """Wait for so many messages."""
        async with asyncio.timeout(TIMEOUT):
            while len(self.messages) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.messages


@pytest.mark.anyio
@pytest.mark.parametrize("step", [1, 3, 5, 7, 1000], ids=lambda step: f"{step} bytes at once")
async def test_messages_arrive_whole(step: int) -> None:
    """Messages that arrive in parts, and several that arrive together, are received one by one."""
    receiver = Receiver()
    near, far = socket.socketpair()
    with far:
        frames = await receiver.connect(near)
        expected = [(kind, bytes([kind]) * size) for kind, size in enumerate((0, 1, 4, 5, 300), start=1)]
        data = b"".join(message(kind, content) for kind, content in expected)
        for at in range(0, len(data), step):
            frames.data_received(data[at : at + step])
        assert await receiver.received(len(expected)) == expected
        frames.close()


@pytest.mark.anyio
@pytest.mark.parametrize("length", [0, LARGEST + 1], ids=["nothing", "too much"])
async def test_a_length_that_cannot_be_ends_the_connection(length: int) -> None:
    """Bytes that are not a message end the connection."""
    receiver = Receiver()
    near, far = socket.socketpair()
    with far:
        await receiver.connect(near)
        far.sendall(HEAD.pack(length, 1))
        async with asyncio.timeout(TIMEOUT):
            await receiver.lost.wait()
        assert receiver.messages == []


@pytest.mark.anyio
async def test_messages_of_one_turn_are_sent_together() -> None:
    """Nothing is sent before the turn of the event loop ends; messages that were sent before the end of the connection arrive."""
    near, far = socket.socketpair()
    far.setblocking(False)
    with far:
        frames = await Receiver().connect(near)
        for kind in (1, 2):
            frames.send(message(kind, b"x"))
        with pytest.raises(BlockingIOError):
            far.recv(100)
        frames.close()
        assert far.recv(100) == message(1, b"x") + message(2, b"x")


@pytest.mark.anyio
async def test_a_reader_that_stops_is_waited_for() -> None:
    """`drained` returns when the other side reads again, or has gone."""
    receiver, sender = Receiver(), Receiver()
    near, far = socket.socketpair()
    frames = await sender.connect(near)
    while not (waiting := asyncio.ensure_future(frames.drained())).done():
        frames.send(message(1, bytes(100_000)))
        await asyncio.sleep(0)
        if not waiting.done():
            break
    other = await receiver.connect(far)
    async with asyncio.timeout(TIMEOUT):
        await waiting
    other.close()
    async with asyncio.timeout(TIMEOUT):
        await sender.lost.wait()
        await frames.drained()
    assert not frames.is_open
    frames.send(message(1, b"dropped"))
