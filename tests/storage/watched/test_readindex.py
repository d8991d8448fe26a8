"""The read index: one call for all reads that waited when it began."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import UnavailableError
from kcp_py.storage.watched.readindex import JointReadIndex

pytestmark = pytest.mark.anyio


class _Calls:
    """Calls of a store that end when the test says so."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
        self.count = 0

    async def fetch(self) -> int:
        self.count += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(future)
        return await future


async def test_waiting_reads_share_a_call() -> None:
    """Reads that arrive together are answered by one call."""
    calls = _Calls()
    index = JointReadIndex(calls.fetch)
    reads = [asyncio.ensure_future(index.read_index()) for _ in range(50)]
    (await calls.begun.get()).set_result(7)
    assert await asyncio.gather(*reads) == [7] * 50
    assert calls.count == 1


async def test_a_read_does_not_join_a_call_that_has_begun() -> None:
    """A read that arrives during a call gets the answer of the next one, because the first may be older than the read."""
    calls = _Calls()
    index = JointReadIndex(calls.fetch)
    early = asyncio.ensure_future(index.read_index())
    first = await calls.begun.get()
    late = asyncio.ensure_future(index.read_index())
    await asyncio.sleep(0)
    first.set_result(1)
    assert await early == 1
    (await calls.begun.get()).set_result(2)
    assert await late == 2


async def test_a_failed_call_fails_its_own_reads_alone() -> None:
    """The error reaches each read that waited for the call; the next call is tried."""
    calls = _Calls()
    index = JointReadIndex(calls.fetch)
    reads = [asyncio.ensure_future(index.read_index()) for _ in range(3)]
    first = await calls.begun.get()
    late = asyncio.ensure_future(index.read_index())
    await asyncio.sleep(0)
    first.set_exception(UnavailableError("no member"))
    for read in reads:
        with pytest.raises(UnavailableError, match="no member"):
            await read
    (await calls.begun.get()).set_result(3)
    assert await late == 3


async def test_a_cancelled_read_does_not_affect_the_others() -> None:
    """A client that disconnects ends its own read only."""
    calls = _Calls()
    index = JointReadIndex(calls.fetch)
    gone, stays = (asyncio.ensure_future(index.read_index()) for _ in range(2))
    call = await calls.begun.get()
    gone.cancel()
    await asyncio.sleep(0)
    call.set_result(4)
    assert await stays == 4
    assert gone.cancelled()


async def test_closing_ends_reads() -> None:
    """Reads that wait, and later ones, fail when the store closes."""
    calls = _Calls()
    index = JointReadIndex(calls.fetch)
    reads = [asyncio.ensure_future(index.read_index())]
    await calls.begun.get()
    reads.append(asyncio.ensure_future(index.read_index()))
    await asyncio.sleep(0)
    await index.close()
    for read in reads:
        with pytest.raises(UnavailableError):
            await read
    with pytest.raises(UnavailableError):
        await index.read_index()
