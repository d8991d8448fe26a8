"""Tests of `transact`."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Put, Storage
from kcp_py.testing.storage_calls import create, delete, put


class WriteTests:
    """Tests of `transact`."""

    async def test_create_of_an_existing_key(self, storage: Storage) -> None:
        """A compare with 0 fails on an existing key, and the error contains the key."""
        revision = await create(storage, "/a", b"1")
        with pytest.raises(ConflictError) as caught:
            await create(storage, "/a", b"2")
        assert caught.value.key == "/a"
        assert caught.value.current == KeyValue("/a", b"1", revision, revision)
        assert await storage.revision() == revision

    async def test_update_at_a_revision(self, storage: Storage) -> None:
        """A compare with the mod revision holds once."""
        first = await create(storage, "/a", b"1")
        second = await storage.transact([Compare("/a", mod_revision=first)], [Put("/a", b"2")])
        assert second == first + 1
        with pytest.raises(ConflictError):
            await storage.transact([Compare("/a", mod_revision=first)], [Put("/a", b"3")])
        found = await storage.get("/a")
        assert found is not None
        assert found.value == b"2"

    async def test_update_of_an_absent_key(self, storage: Storage) -> None:
        """A compare with a revision fails on a missing key, and the error contains None."""
        with pytest.raises(ConflictError) as caught:
            await storage.transact([Compare("/a", mod_revision=1)], [Put("/a", b"1")])
        assert caught.value.current is None

    async def test_compare_of_the_create_revision(self, storage: Storage) -> None:
        """A compare of the create revision holds after updates, and fails after the key was created again."""
        created = await create(storage, "/a")
        await put(storage, "/a", b"2")
        await storage.transact([Compare("/a", create_revision=created)], [Put("/b", b"1")])
        await delete(storage, "/a")
        with pytest.raises(ConflictError):
            await storage.transact([Compare("/a", create_revision=created)], [Put("/b", b"2")])
        await create(storage, "/a")
        with pytest.raises(ConflictError):
            await storage.transact([Compare("/a", create_revision=created)], [Put("/b", b"2")])
        await delete(storage, "/a")
        await storage.transact([Compare("/a", create_revision=0)], [Put("/b", b"3")])

    async def test_several_compares(self, storage: Storage) -> None:
        """All compares must hold. The error names the first that fails, and nothing is written."""
        first = await create(storage, "/a")
        second = await create(storage, "/b")
        with pytest.raises(ConflictError) as caught:
            await storage.transact(
                [Compare("/a", mod_revision=first), Compare("/b", mod_revision=first), Compare("/c", mod_revision=7)],
                [Put("/a", b"2"), Put("/d", b"1")],
            )
        assert caught.value.key == "/b"
        assert await storage.get("/d") is None
        assert await storage.revision() == second

    async def test_several_operations_share_a_revision(self, storage: Storage) -> None:
        """All operations of a transaction happen at one revision."""
        await create(storage, "/a")
        revision = await storage.transact([], [Put("/b", b"1"), Delete("/a"), Put("/c", b"1")])
        result = await storage.range("/")
        assert [(item.key, item.mod_revision) for item in result.items] == [("/b", revision), ("/c", revision)]

    async def test_largest_transaction(self, storage: Storage) -> None:
        """A transaction may have 500 operations."""
        revision = await storage.transact([], [Put(f"/n/{number}", b"x") for number in range(500)])
        assert (await storage.range("/n/", limit=1, count=True)).total == 500
        assert await storage.transact([], [Delete(f"/n/{number}") for number in range(500)]) == revision + 1
        assert (await storage.range("/n/", limit=1, count=True)).total == 0

    async def test_nothing_to_change(self, storage: Storage) -> None:
        """A transaction without a change does not increase the revision."""
        revision = await create(storage, "/a")
        assert await delete(storage, "/b") == revision
        assert await storage.transact([], []) == revision
        assert await storage.transact([Compare("/a", mod_revision=revision)], []) == revision
        assert await storage.revision() == revision

    async def test_put_of_an_equal_value(self, storage: Storage) -> None:
        """Writing an equal value is a write."""
        first = await create(storage, "/a", b"1")
        assert await put(storage, "/a", b"1") == first + 1

    async def test_concurrent_creates_of_one_key(self, storage: Storage) -> None:
        """Of many concurrent creates of a key, one succeeds."""
        results = await asyncio.gather(*(create(storage, "/a", b"%d" % number) for number in range(30)), return_exceptions=True)
        winners = [number for number, result in enumerate(results) if isinstance(result, int)]
        assert len(winners) == 1
        assert sum(isinstance(result, ConflictError) for result in results) == 29
        found = await storage.get("/a")
        assert found is not None
        assert found.value == b"%d" % winners[0]

    async def test_concurrent_writes_have_a_revision_each(self, storage: Storage) -> None:
        """Concurrent writes have successive revisions, and failed compares among them change nothing."""
        before = await create(storage, "/taken")
        attempts = [create(storage, f"/n/{number}" if number % 3 else "/taken") for number in range(60)]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        revisions = [result for result in results if isinstance(result, int)]
        assert sorted(revisions) == list(range(before + 1, before + 41))
        assert sum(isinstance(result, ConflictError) for result in results) == 20
        items = (await storage.range("/n/")).items
        assert sorted(item.mod_revision for item in items) == sorted(revisions)

    async def test_counter(self, storage: Storage) -> None:
        """Compare-and-set loses no update."""
        await create(storage, "/counter", b"0")

        async def increment() -> None:
            while True:
                found = await storage.get("/counter")
                assert found is not None
                try:
                    await storage.transact(
                        [Compare("/counter", mod_revision=found.mod_revision)], [Put("/counter", b"%d" % (int(found.value) + 1))]
                    )
                except ConflictError:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(20)))
        found = await storage.get("/counter")
        assert found is not None
        assert found.value == b"20"

    async def test_own_writes_are_read(self, storage: Storage) -> None:
        """An acknowledged write is seen by the next read, also while others write."""

        async def writer(number: int) -> None:
            for round_ in range(10):
                revision = await put(storage, f"/w/{number}", b"%d" % round_)
                found = await storage.get(f"/w/{number}")
                assert found is not None
                assert (found.value, found.mod_revision) == (b"%d" % round_, revision)
                result = await storage.range(f"/w/{number}")
                assert result.revision >= revision
                assert found in result.items

        await asyncio.gather(*(writer(number) for number in range(10, 18)))

    async def test_cancelled_writer(self, storage: Storage) -> None:
        """A cancelled writer does not disturb the others."""
        tasks = [asyncio.create_task(create(storage, f"/n/{number}")) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, int) for result in results[1::2])
        keys = {item.key for item in (await storage.range("/n/")).items}
        assert keys >= {f"/n/{number}" for number in range(1, 20, 2)}
