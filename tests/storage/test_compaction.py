"""The policy of compaction, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from kcp_py.storage.compaction import Compaction, CompactionPolicy, SharedCompaction, run_compaction, run_shared_compaction
from kcp_py.storage.contract import CompactedError, Compare, FutureRevisionError, NoSpaceError, Operation, Put, UnavailableError
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
    """History older than the kept age is removed, with the precision of the checks."""
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


_RECORD = "/registry/.kcp-py/compact-rev-key"


class _Recorded(MemoryStorage):
    """A store that remembers where it was compacted."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def compact(self, revision: int) -> None:
        self.asked.append(revision)
        await super().compact(revision)

    async def fill(self, times: int = 5) -> int:
        for _ in range(times):
            revision = await self.transact([], [Put("/a", b"x")])
        return revision


@pytest.mark.anyio
async def test_a_shared_store_keeps_an_interval() -> None:
    """Each look compacts at the revision of the look before, and the first one at none."""
    async with _Recorded() as storage:
        compaction = SharedCompaction(storage, _RECORD)
        looked = []
        for _ in range(4):
            await storage.fill()
            await compaction.look()
            looked.append(await storage.revision())
        assert storage.asked == looked[:-1]


@pytest.mark.anyio
async def test_servers_take_turns_in_compacting() -> None:
    """Of several servers one compacts in each interval, at a revision at least an interval old; when it dies another one does."""
    async with _Recorded() as storage:
        servers = [SharedCompaction(storage, _RECORD) for _ in range(3)]
        ages = []
        for turn in range(6):
            if turn == 3:
                del servers[0]
            before = await storage.fill()
            count = len(storage.asked)
            for server in servers:
                await server.look()
            ages.append(before)
            assert len(storage.asked) == count + (turn > 0), turn
            assert all(revision < ages[turn] for revision in storage.asked[count:])
        assert storage.asked == sorted(set(storage.asked))


@pytest.mark.anyio
async def test_a_late_server_compacts_nothing_young() -> None:
    """A server that finds another one's record compacts nothing before it has seen an interval pass."""
    async with _Recorded() as storage:
        await storage.fill()
        await SharedCompaction(storage, _RECORD).look()
        await storage.fill()
        late = SharedCompaction(storage, _RECORD)
        await late.look()
        assert storage.asked == []
        seen = await storage.revision()
        await storage.fill()
        await late.look()
        assert storage.asked == [seen]


@pytest.mark.anyio
async def test_an_idle_shared_store_is_left_alone() -> None:
    """An idle store is compacted once more, and its servers do not write to it."""
    async with _Recorded() as storage:
        servers = [SharedCompaction(storage, _RECORD) for _ in range(2)]
        await storage.fill()
        for _ in range(9):
            for server in servers:
                await server.look()
        assert await storage.revision() == 6
        assert storage.asked == [6, 6]
        with pytest.raises(CompactedError):
            await storage.range("/", revision=5)


@pytest.mark.anyio
async def test_an_unknown_outcome_is_found_out_at_the_next_look() -> None:
    """A record whose acknowledgement was lost does not make its writer compact at a wrong revision."""

    class Deaf(_Recorded):
        deaf = False

        async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
            revision = await super().transact(compares, operations)
            if self.deaf:
                raise UnavailableError("the answer is lost")
            return revision

    async with Deaf() as storage:
        compaction = SharedCompaction(storage, _RECORD)
        await storage.fill()
        await compaction.look()
        first = await storage.revision()
        await storage.fill()
        storage.deaf = True
        with pytest.raises(UnavailableError):
            await compaction.look()
        storage.deaf = False
        await compaction.look()
        assert storage.asked == []
        await storage.fill()
        seen = await storage.revision() - 5
        await compaction.look()
        assert storage.asked == [seen]
        assert first < seen


@pytest.mark.anyio
async def test_a_full_shared_store_is_compacted_nevertheless() -> None:
    """Where the record cannot be written because the store is full, history goes all the same, so that there is room again."""

    class Full(_Recorded):
        full = False

        async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
            if self.full:
                raise NoSpaceError("database space exceeded")
            return await super().transact(compares, operations)

    async with Full() as storage:
        compaction = SharedCompaction(storage, _RECORD)
        await storage.fill()
        await compaction.look()
        seen = await storage.revision()
        await storage.fill()
        storage.full = True
        for _ in range(3):
            await compaction.look()
        assert storage.asked == [seen, await storage.revision()]


@pytest.mark.anyio
async def test_a_store_from_an_older_copy_is_learned_anew() -> None:
    """After etcd was restored to an earlier state its compaction begins anew instead of failing for ever."""

    class Restored(_Recorded):
        restored = False

        async def compact(self, revision: int) -> None:
            if self.restored:
                raise FutureRevisionError(revision, 1)
            await super().compact(revision)

    async with Restored() as storage:
        compaction = SharedCompaction(storage, _RECORD)
        for _ in range(2):
            await storage.fill()
            await compaction.look()
        count = len(storage.asked)
        storage.restored = True
        await storage.fill()
        await compaction.look()
        storage.restored = False
        for _ in range(3):
            await storage.fill()
            await compaction.look()
        assert len(storage.asked) == count + 2


@pytest.mark.anyio
async def test_the_shared_loop_outlives_a_lost_store() -> None:
    """The loop looks once an interval, goes on after a store that could not be reached, and says that it was not."""

    class Away(_Recorded):
        looks = 0

        async def revision(self) -> int:
            self.looks += 1
            if self.looks == 2:
                raise UnavailableError("away")
            await self.fill(1)
            return await super().revision()

    async with Away() as storage:
        clock = _Clock(1200)
        with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
            await run_shared_compaction(storage, _RECORD, 300, sleep=clock.sleep)
        assert storage.looks == 4
        assert len(storage.asked) == 2
    told = [log for log in logs if log["event"] != "storage_compacted"]
    assert told == [
        {"event": "compaction_failed", "log_level": "warning", "error": "away", "retry_seconds": 300},
        {"event": "compaction_recovered", "log_level": "info"},
    ]
