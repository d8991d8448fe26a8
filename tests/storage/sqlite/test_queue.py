"""Groups of writes that become one commit."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.aio.stages import next_stage
from kcp_py.storage.sqlite.queue import LARGEST_GROUP, Request, WriteQueue

pytestmark = pytest.mark.anyio


def _request(number: int = 0) -> Request:
    return Request(asyncio.get_running_loop().create_future(), (), (), number)


async def test_a_group_has_the_writes_in_their_order() -> None:
    """All queued writes are taken, and the queue is empty afterwards."""
    queue = WriteQueue()
    for number in range(3):
        queue.put(_request(number))
    assert [request.compact for request in await queue.gather()] == [0, 1, 2]
    assert len(queue) == 0


async def test_a_group_grows_while_writes_come() -> None:
    """A write of the next iteration of the event loop belongs to the group."""
    queue = WriteQueue()
    queue.put(_request(1))
    asyncio.get_running_loop().call_soon(lambda: queue.put(_request(2)))
    assert [request.compact for request in await queue.gather()] == [1, 2]


async def test_a_group_waits_for_requests_between_stages() -> None:
    """A request that has several stages before its write belongs to the group that is gathered meanwhile."""
    queue = WriteQueue()

    async def request() -> None:
        for _ in range(12):
            await next_stage()
        queue.put(_request(2))

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    queue.put(_request(1))
    assert [request.compact for request in await queue.gather()] == [1, 2]
    await task


async def test_a_group_does_not_grow_for_long() -> None:
    """Requests that go from stage to stage without end do not hold up a group."""
    queue = WriteQueue()

    async def endless() -> None:
        while True:
            await next_stage()

    task = asyncio.create_task(endless())
    await asyncio.sleep(0)
    queue.put(_request(1))
    assert [request.compact for request in await asyncio.wait_for(queue.gather(), 5)] == [1]
    task.cancel()


def test_a_group_waits_for_no_request_of_a_closed_loop() -> None:
    """A program may close an event loop whose requests were not cancelled, and write in another one."""

    async def endless() -> None:
        while True:
            await next_stage()

    closed = asyncio.new_event_loop()
    task = closed.create_task(endless())
    closed.run_until_complete(asyncio.sleep(0))
    closed.close()

    async def iterations() -> int:
        queue, found = WriteQueue(), 0

        async def count() -> None:
            nonlocal found
            while True:
                found += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        queue.put(_request(1))
        await queue.gather()
        counting.cancel()
        return found

    assert asyncio.run(iterations()) < 10
    assert not task.done()


async def test_a_group_is_bounded() -> None:
    """Writes beyond the largest group wait for the next one."""
    queue = WriteQueue()
    for number in range(LARGEST_GROUP + 1):
        queue.put(_request(number))
    assert len(await queue.gather()) == LARGEST_GROUP
    assert [request.compact for request in await queue.gather()] == [LARGEST_GROUP]


async def test_a_write_wakes_the_writer() -> None:
    """`wait` ends with the next `put` or `wake`, and a `wake` before it has no effect."""
    queue = WriteQueue()
    queue.wake()
    for wake in (lambda: queue.put(_request()), queue.wake):
        waiting = asyncio.create_task(queue.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        wake()
        await asyncio.wait_for(waiting, 30)
