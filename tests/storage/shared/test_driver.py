"""The driver of a process that does not own the store, against the suite and the model, with a real process as the owner."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import settings

from kcp_py.storage.contract import Compare, Delete, Put, Storage, StorageError, UnavailableError
from kcp_py.storage.rangecache import Span
from kcp_py.storage.shared import SharedStorage
from kcp_py.storage.sqlite import integrity_check
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite
from tests.storage.shared.ownerprocess import OwnerProcess

TIMEOUT = 60
ROUNDS = 1_500


class TestSharedStorage(StorageSuite):
    """The suite."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        with OwnerProcess(tmp_path / "store.db") as owner:
            async with owner.storage() as storage:
                yield storage
            assert owner.process.poll() is None
        assert integrity_check(tmp_path / "store.db") == []


class _WithOwnProcess(SharedStorage):
    """A store whose owner and file go away with it."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="kcp-py-test-")
        owner = OwnerProcess(Path(folder) / "store.db")
        weakref.finalize(self, _remove, owner, folder)
        super().__init__(owner.path, owner.connect, owner.revisions, progress_interval=0)


def _remove(owner: OwnerProcess, folder: str) -> None:
    owner.close()
    shutil.rmtree(folder, ignore_errors=True)


TestMachine = storage_machine(_WithOwnProcess).TestCase
TestMachine.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)


@pytest.mark.anyio
@pytest.mark.slow
async def test_reads_of_one_process_have_the_writes_of_another(tmp_path: Path) -> None:
    """Every read that begins after a write was acknowledged sees it, in any process, under checkpoints and compactions."""
    chance = random.Random(14)
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as one, owner.storage() as two, asyncio.timeout(TIMEOUT * 5):
            latest: dict[str, int] = {}
            for number in range(ROUNDS):
                writer, reader = (one, two) if chance.random() < 0.5 else (two, one)
                key = f"/k/{chance.randint(0, 20)}"
                assert (await reader.get(key)) == (await writer.get(key))
                if key in latest and chance.random() < 0.2:
                    revision = await writer.transact([Compare(key, mod_revision=latest.pop(key))], [Delete(key)])
                    assert await reader.get(key) is None
                else:
                    value = b"%d" % number * chance.randint(1, 300)
                    compare = Compare(key, mod_revision=latest.get(key, 0))
                    revision = latest[key] = await writer.transact([compare], [Put(key, value)])
                    item = await reader.get(key)
                    assert item is not None
                    assert (item.value, item.mod_revision) == (value, revision)
                assert await reader.revision() >= revision
                assert {item.key: item.mod_revision for item in (await reader.range("/k/")).items} == latest
                old = await reader.range("/k/", revision=max(1, revision - 3))
                assert all(item.mod_revision <= revision - 3 for item in old.items) or revision <= 3
                if number % 200 == 150:
                    await writer.compact(revision - 5)


@pytest.mark.anyio
@pytest.mark.slow
async def test_reads_never_go_back(tmp_path: Path) -> None:
    """A read that begins when another one has ended, in any process, does not return an older state, whatever is being committed."""
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as one, owner.storage() as two, asyncio.timeout(TIMEOUT):
            await one.transact([], [Put("/a", b"0"), Put("/b", b"0")])
            writing = True

            async def write(storage: Storage, key: str) -> None:
                while writing:
                    await storage.transact([], [Put(key, b"1")])

            async def read(key: str, first: Storage, second: Storage) -> int:
                seen = 0
                for _ in range(3_000):
                    for storage in (first, second):
                        item = await storage.get(key)
                        assert item is not None
                        assert item.mod_revision >= seen
                        seen = item.mod_revision
                    revision = await second.revision()
                    assert revision >= seen
                    seen_in_range = {item.key: item.mod_revision for item in (await first.range("/")).items}
                    assert seen_in_range[key] >= seen
                    await asyncio.sleep(0)
                return seen

            writers = [asyncio.create_task(write(storage, key)) for storage in (one, two) for key in ("/a", "/b")]
            reached = await asyncio.gather(read("/a", one, two), read("/b", two, one))
            writing = False
            await asyncio.gather(*writers)
            assert min(reached) > 3


@pytest.mark.anyio
async def test_watches_of_all_processes_are_complete(tmp_path: Path) -> None:
    """Each process delivers each write of all of them once, in order, also of bursts larger than its buffers."""
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as one, owner.storage() as two, asyncio.timeout(TIMEOUT):
            total = 0

            async def write(storage: Storage, name: str) -> None:
                nonlocal total
                for number in range(20):
                    await storage.transact([], [Put(f"/{name}/{at}", b"%d" % number * 50) for at in range(300)])
                    total += 300

            async def follow(storage: Storage) -> list[tuple[str, int]]:
                events = []
                async with aclosing(storage.watch("/", start_revision=1)) as batches:
                    async for batch in batches:
                        events += [(event.key, event.mod_revision) for event in batch.events]
                        if batch.revision == 40:
                            return events
                raise AssertionError("the watch has ended")

            following = [asyncio.create_task(follow(storage)) for storage in (one, two)]
            await asyncio.gather(write(one, "a"), write(two, "b"))
            first, second = await asyncio.gather(*following)
            assert first == second
            assert len(first) == total == 12_000
            assert [revision for _, revision in first] == sorted(revision for _, revision in first)


@pytest.mark.anyio
async def test_the_owner_is_killed(tmp_path: Path) -> None:
    """Writes and watches fail when the owner has gone, reads go on, and every acknowledged write is there for the next owner."""
    lost = asyncio.Event()
    acknowledged: dict[str, int] = {}
    with OwnerProcess(tmp_path / "store.db") as owner:
        storage = SharedStorage(owner.path, owner.connect, owner.revisions, lost=lost.set)
        async with storage, asyncio.timeout(TIMEOUT):

            async def write(name: str) -> None:
                for number in range(1_000_000):
                    acknowledged[name] = await storage.transact([], [Put(f"/{name}", b"%d" % number)])

            watch = storage.watch("/", start_revision=1)
            writers = [asyncio.create_task(write(name)) for name in "abc"]
            while (await anext(watch)).revision < 100:
                pass
            owner.kill()
            outcomes = await asyncio.gather(*writers, return_exceptions=True)
            assert all(isinstance(outcome, UnavailableError) for outcome in outcomes), outcomes
            await lost.wait()
            with pytest.raises(UnavailableError):
                [batch async for batch in watch]
            with pytest.raises(UnavailableError):
                await storage.transact([], [Put("/a", b"1")])
            with pytest.raises(UnavailableError):
                await storage.check()
            item = await storage.get("/a")
            assert item is not None
            assert item.mod_revision >= acknowledged["a"]
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as storage:
            for name, revision in acknowledged.items():
                item = await storage.get(f"/{name}")
                assert item is not None
                assert item.mod_revision >= revision


@pytest.mark.anyio
async def test_a_process_is_killed_without_harm(tmp_path: Path) -> None:
    """When one process is cut off while it writes, the owner and the others go on."""
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as staying, asyncio.timeout(TIMEOUT):
            for _ in range(20):
                raw = owner.connect()
                going = SharedStorage(owner.path, raw.dup, owner.revisions)
                async with going:
                    writing = [asyncio.create_task(going.transact([], [Put(f"/{number}", b"x" * 1000)])) for number in range(100)]
                    await asyncio.sleep(0)
                    raw.shutdown(2)
                    for outcome in await asyncio.gather(*writing, return_exceptions=True):
                        assert isinstance(outcome, int | UnavailableError)
                raw.close()
                revision = await staying.transact([], [Put("/0", b"y")])
                assert (await staying.range("/")).revision >= revision


@pytest.mark.anyio
async def test_compaction_is_the_owners(tmp_path: Path) -> None:
    """A process that does not own the store cannot compact it."""
    with OwnerProcess(tmp_path / "store.db", allow_compaction=False) as owner:
        async with owner.storage() as storage:
            revision = await storage.transact([], [Put("/a", b"1")])
            with pytest.raises(StorageError, match="the process that owns the store compacts it"):
                await storage.compact(revision)


@pytest.mark.anyio
async def test_a_caller_that_goes_leaves_the_queue(tmp_path: Path) -> None:
    """A cancelled transaction is carried out whole or not at all, and the next ones of the process are answered."""
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as storage, asyncio.timeout(TIMEOUT):
            for number in range(50):
                task = asyncio.create_task(storage.transact([], [Put(f"/x/{number}", b"1"), Put(f"/y/{number}", b"1")]))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await storage.transact([], [Put("/z", b"1")])
            one, other = await storage.range("/x/"), await storage.range("/y/")
            assert [item.key[3:] for item in one.items] == [item.key[3:] for item in other.items]


@pytest.mark.anyio
async def test_hot_keys_and_ranges_follow_other_processes(tmp_path: Path) -> None:
    """Cached keys and spans are dropped by the writes of other processes before they would be answered."""
    with OwnerProcess(tmp_path / "store.db") as owner:
        async with owner.storage() as one, owner.storage() as two, asyncio.timeout(TIMEOUT):
            await one.transact([], [Put("/a/1", b"0")])
            for number in range(200):
                assert await two.get("/a/1") == await two.get("/a/1")
                with two.range_cache.reading("/a/") as reading:
                    found = await two.range("/a/")
                    keys, elements = [item.key for item in found.items], [item.value for item in found.items]
                    two.range_cache.keep(reading, "maker", Span("/a/", "/a0", found.revision, keys, elements), latest=True)
                revision = await one.transact([], [Put("/a/1", b"%d" % number)])
                item = await two.get("/a/1")
                assert item is not None
                assert item.value == b"%d" % number
                assert await two.revision() >= revision
                span = two.range_cache.find("/a/", "maker", "/a/1", 0)
                assert span is None or span.element(0) == b"%d" % number
