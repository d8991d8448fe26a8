"""The policy of compaction, on a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.compaction import Compaction, CompactionPolicy, run_compaction
from kcp_py.storage.contract import CompactedError, Put, UnavailableError
from kcp_py.storage.memory import MemoryStorage

_POLICY = CompactionPolicy(seconds=100, revisions=1000, interval=10)


class _Clock:
    """Time that passes only by sleeping."""

    def __init__(self, until: float) -> None:
        self.now = 0.0
        self._until = until

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self._until:
            raise asyncio.CancelledError


def test_young_history_is_kept() -> None:
    """Nothing is compacted before the age is reached, however often one looks."""
    compaction = Compaction(_POLICY)
    assert [compaction.step(now, now) for now in range(0, 100, 10)] == [0] * 10


def test_old_history_goes() -> None:
    """What was there at least the kept age ago goes, exact to a look."""
    compaction = Compaction(_POLICY)
    for now in range(0, 100, 10):
        compaction.step(now, 100 + now)
    assert compaction.step(100, 200) == 100
    assert compaction.step(109, 209) == 100
    compaction.compacted(100)
    assert compaction.step(109, 209) == 0
    assert compaction.step(115, 215) == 110


def test_much_history_goes() -> None:
    """More revisions than the policy allows go, however young they are."""
    compaction = Compaction(_POLICY)
    assert compaction.step(0, 1000) == 0
    assert compaction.step(1, 5000) == 4000
    compaction.compacted(4000)
    assert compaction.step(2, 5000) == 0


def test_idle_store_is_left_alone() -> None:
    """A store that stands still is compacted once."""
    compaction = Compaction(_POLICY)
    targets = []
    for now in range(0, 1000, 10):
        if target := compaction.step(now, 7):
            targets.append((now, target))
            compaction.compacted(target)
    assert targets == [(100, 7)]


@pytest.mark.anyio
async def test_loop_compacts() -> None:
    """The loop compacts the store by age."""
    async with MemoryStorage() as storage:
        for _ in range(3):
            await storage.transact([], [Put("/a", b"x")])
        clock = _Clock(110)
        with pytest.raises(asyncio.CancelledError):
            await run_compaction(storage, _POLICY, clock=clock, sleep=clock.sleep)
        with pytest.raises(CompactedError) as caught:
            await storage.compact(3)
        assert caught.value.compact_revision == 3


@pytest.mark.anyio
async def test_two_loops() -> None:
    """A second server's loop that comes late learns how far the first has come, and both go on."""
    async with MemoryStorage() as storage:
        await storage.transact([], [Put("/a", b"x")])
        clocks = [_Clock(250), _Clock(250)]
        loops = [asyncio.ensure_future(run_compaction(storage, _POLICY, clock=clock, sleep=clock.sleep)) for clock in clocks]
        assert all(isinstance(result, asyncio.CancelledError) for result in await asyncio.gather(*loops, return_exceptions=True))
        with pytest.raises(CompactedError):
            await storage.compact(1)


@pytest.mark.anyio
async def test_loop_outlives_a_lost_store() -> None:
    """A store that cannot be reached for a while does not end the loop."""

    class Away(MemoryStorage):
        looks = 0

        async def revision(self) -> int:
            self.looks += 1
            if self.looks < 5:
                raise UnavailableError("away")
            return await super().revision()

    async with Away() as storage:
        await storage.transact([], [Put("/a", b"x")])
        clock = _Clock(200)
        with pytest.raises(asyncio.CancelledError):
            await run_compaction(storage, _POLICY, clock=clock, sleep=clock.sleep)
        with pytest.raises(CompactedError):
            await storage.compact(1)
