"""Tests of `get` and `range`."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.storage.contract import LARGEST_PAGE_BYTES, Delete, FutureRevisionError, KeyValue, Put, RangeResult, Storage
from kcp_py.storage.oldkeys import read_at
from kcp_py.testing.storage_calls import create, delete, put


class ReadTests:
    """Tests of `get`, `read_at`, `range`, `revision` and `check`."""

    async def test_absent_key(self, storage: Storage) -> None:
        """A get of a key that was never written returns None."""
        assert await storage.get("/a") is None

    @pytest.mark.parametrize("limit", [2**31, 2**63 - 2, 2**63 - 1])
    async def test_a_limit_may_be_as_large_as_a_client_can_say(self, storage: Storage, limit: int) -> None:
        """A limit of 64 bits returns all keys, at the current and at an old revision."""
        await create(storage, "/a")
        then = await create(storage, "/b")
        await create(storage, "/c")
        page = await storage.range("/", limit=limit, count=True)
        assert ([item.key for item in page.items], page.more, page.total) == (["/a", "/b", "/c"], False, 3)
        page = await storage.range("/", limit=limit, revision=then)
        assert ([item.key for item in page.items], page.more) == (["/a", "/b"], False)

    async def test_get(self, storage: Storage) -> None:
        """A get returns the value and the revisions of a key."""
        first = await create(storage, "/a", b"1")
        assert await storage.get("/a") == KeyValue("/a", b"1", first, first)
        second = await put(storage, "/a", b"2")
        assert await storage.get("/a") == KeyValue("/a", b"2", second, first)

    async def test_recreated_key(self, storage: Storage) -> None:
        """A key that was deleted and created again has new revisions."""
        await create(storage, "/a")
        await delete(storage, "/a")
        assert await storage.get("/a") is None
        revision = await create(storage, "/a", b"new")
        assert await storage.get("/a") == KeyValue("/a", b"new", revision, revision)

    async def test_a_key_at_an_old_revision(self, storage: Storage) -> None:
        """A key is returned as it was at a revision, whatever has become of it and of its neighbours since."""
        changed = await create(storage, "/a/changed", b"1")
        gone = await create(storage, "/a/gone", b"1")
        kept = await create(storage, "/a/kept", b"1")
        await put(storage, "/a/changed", b"2")
        await delete(storage, "/a/gone")
        await create(storage, "/a/gone", b"2")
        await delete(storage, "/a/gone")
        await create(storage, "/a/ke", b"1")
        assert await read_at(storage, "/a/changed", kept) == KeyValue("/a/changed", b"1", changed, changed)
        assert await read_at(storage, "/a/gone", kept) == KeyValue("/a/gone", b"1", gone, gone)
        assert await read_at(storage, "/a/kept", kept) == KeyValue("/a/kept", b"1", kept, kept)
        assert await read_at(storage, "/a/kept", gone) is None
        assert await read_at(storage, "/a/ke", kept) is None
        assert await read_at(storage, "/a/k", await storage.revision()) is None

    async def test_empty_range(self, storage: Storage) -> None:
        """An empty range returns the revision."""
        revision = await create(storage, "/a")
        assert await storage.range("/b/", count=True) == RangeResult([], revision, more=False, total=0)

    async def test_range_is_by_prefix(self, storage: Storage) -> None:
        """A range contains the keys that begin with the prefix, and no others."""
        for key in ["/a", "/a-", "/a/", "/a/1", "/a/2", "/a0", "/b/1"]:
            await create(storage, key)
        assert await _keys(storage, "/a/") == ["/a/", "/a/1", "/a/2"]
        assert await _keys(storage, "/a") == ["/a", "/a-", "/a/", "/a/1", "/a/2", "/a0"]
        assert await _keys(storage, "") == ["/a", "/a-", "/a/", "/a/1", "/a/2", "/a0", "/b/1"]

    async def test_range_is_in_code_point_order(self, storage: Storage) -> None:
        """Keys are sorted by code points, as in UTF-8 and Python, and not as in UTF-16 or a locale."""
        keys = ["/k/é", "/k/a", "/k/B", "/k/\U0001f600", "/k/\uffee", "/k/Z", "/k/ä", "/k/10", "/k/9"]
        for key in keys:
            await create(storage, key)
        assert await _keys(storage, "/k/") == sorted(keys)
        assert await _keys(storage, "/k/\ud7ff") == []

    async def test_a_page_is_bounded_in_bytes(self, storage: Storage) -> None:
        """A page of large values ends before its limit, and the next page continues. Without a limit all values are returned."""
        value = b"x" * (1024 * 1024)
        keys = [f"/l/{index:02}" for index in range(LARGEST_PAGE_BYTES // len(value) + 4)]
        for key in keys:
            await create(storage, key, value)
        page = await storage.range("/l/", limit=1000, count=True)
        assert page.more
        assert page.total == len(keys)
        assert 0 < sum(len(item.value) for item in page.items) <= LARGEST_PAGE_BYTES + len(value)
        seen = [item.key for item in page.items]
        while page.more:
            page = await storage.range("/l/", start=f"{seen[-1]}\x01", limit=1000)
            seen += [item.key for item in page.items]
        assert seen == keys
        assert await _keys(storage, "/l/") == keys
        assert len((await storage.range("/l/", limit=1000, keys_only=True)).items) == len(keys)

    async def test_a_page_is_bounded_in_the_bytes_that_are_asked_for(self, storage: Storage) -> None:
        """The value that exceeds the limit is the last one, also at old revisions. A page contains at least one value."""
        keys = [f"/l/{index}" for index in range(9)]
        for key in keys:
            await create(storage, key, b"x" * 1_000)
        then = await storage.revision()
        await storage.transact([], [Put(keys[1], b"y"), Delete(keys[2])])
        for max_bytes, count in ((0, 1), (999, 1), (1_000, 2), (2_500, 3), (9_000, 9)):
            page = await storage.range("/l/", limit=100, revision=then, count=True, max_bytes=max_bytes)
            assert ([item.key for item in page.items], page.more, page.total) == (keys[:count], count < len(keys), len(keys))
        page = await storage.range("/l/", limit=2, max_bytes=1_001)
        assert ([item.value for item in page.items], page.more) == ([b"x" * 1_000, b"y"], True)
        assert len((await storage.range("/l/", limit=100, keys_only=True, max_bytes=0)).items) == len(keys) - 1
        assert len((await storage.range("/l/", max_bytes=0)).items) == len(keys) - 1

    async def test_values_are_bytes(self, storage: Storage) -> None:
        """Any bytes are returned unchanged."""
        value = bytes(range(256)) * 40
        await create(storage, "/a", value)
        assert (await storage.range("/")).items[0].value == value

    async def test_large_value(self, storage: Storage) -> None:
        """A value of 1.5 MB, etcd's limit, is stored."""
        value = b"0123456789abcdef" * 93_750
        await create(storage, "/a", value)
        found = await storage.get("/a")
        assert found is not None
        assert found.value == value

    async def test_pages(self, storage: Storage) -> None:
        """`start` and `limit` read a range without loss or repetition, and `more` and `total` describe the rest."""
        names = [f"/p/{number:03}" for number in range(25)]
        await storage.transact([], [Put(name, b"x") for name in names])
        await create(storage, "/q")
        seen: list[str] = []
        start = ""
        for expected_total in (25, 15, 5):
            page = await storage.range("/p/", start=start, limit=10, count=True)
            assert page.total == expected_total
            assert page.more is (expected_total > 10)
            seen += [item.key for item in page.items]
            start = seen[-1] + "\x01"
        assert seen == names
        exact = await storage.range("/p/", limit=25)
        assert (len(exact.items), exact.more, exact.total) == (25, False, -1)

    async def test_start_outside_of_the_prefix(self, storage: Storage) -> None:
        """A start before the prefix has no effect; a start after it returns no keys."""
        await create(storage, "/b/1")
        await create(storage, "/c/1")
        assert [item.key for item in (await storage.range("/b/", start="/a")).items] == ["/b/1"]
        assert await storage.range("/b/", start="/c", count=True) == RangeResult([], await storage.revision(), more=False, total=0)

    async def test_keys_only(self, storage: Storage) -> None:
        """`keys_only` leaves out only the values."""
        first = await create(storage, "/a", b"1")
        second = await put(storage, "/a", b"2")
        assert (await storage.range("/", keys_only=True)).items == [KeyValue("/a", b"", second, first)]
        assert (await storage.range("/", keys_only=True, revision=first)).items == [KeyValue("/a", b"", first, first)]

    async def test_range_at_an_old_revision(self, storage: Storage) -> None:
        """An old revision has overwritten values and deleted keys, and no later keys."""
        await create(storage, "/a", b"1")
        await create(storage, "/b", b"1")
        then = await create(storage, "/d", b"1")
        await put(storage, "/a", b"2")
        await delete(storage, "/b")
        await create(storage, "/c", b"1")
        await delete(storage, "/d")
        await create(storage, "/d", b"2")
        old = await storage.range("/", revision=then, count=True)
        assert [(item.key, item.value) for item in old.items] == [("/a", b"1"), ("/b", b"1"), ("/d", b"1")]
        assert (old.revision, old.total) == (then, 3)
        page = await storage.range("/", revision=then, start="/a0", limit=1, count=True)
        assert ([item.key for item in page.items], page.more, page.total) == (["/b"], True, 2)
        new = await storage.range("/")
        assert [(item.key, item.value) for item in new.items] == [("/a", b"2"), ("/c", b"1"), ("/d", b"2")]

    async def test_old_revision_of_a_large_range(self, storage: Storage) -> None:
        """An old revision is correct page by page, even after many later writes."""
        names = [f"/p/{number:04}" for number in range(600)]
        for begin in (0, 300):
            then = await storage.transact([], [Put(name, b"old") for name in names[begin : begin + 300]])
        await storage.transact([], [Put(name, b"new") for name in names[0:400:2]])
        for name in names[1:100:2]:
            await delete(storage, name)
        await storage.transact([], [Put(f"{name}+", b"later") for name in names[:400]])
        page = await storage.range("/p/", limit=70, revision=then, count=True)
        assert page.total == len(names)
        seen = page.items
        while page.more:
            page = await storage.range("/p/", start=f"{seen[-1].key}\x01", limit=70, revision=then, count=True)
            assert page.total == len(names) - len(seen)
            seen += page.items
        assert [item.key for item in seen] == names
        assert {item.value for item in seen} == {b"old"}
        assert (await storage.range("/p/", revision=then)).items == seen

    async def test_future_revision(self, storage: Storage) -> None:
        """A future revision cannot be read."""
        revision = await create(storage, "/a")
        with pytest.raises(FutureRevisionError) as caught:
            await storage.range("/", revision=revision + 1)
        assert (caught.value.revision, caught.value.current) == (revision + 1, revision)
        with pytest.raises(FutureRevisionError):
            await read_at(storage, "/a", revision + 1)

    async def test_revision(self, storage: Storage) -> None:
        """The revision increases by one with every write."""
        before = await storage.revision()
        assert await create(storage, "/a") == before + 1
        assert await storage.revision() == before + 1

    async def test_a_range_is_one_snapshot(self, storage: Storage) -> None:
        """A range with concurrent writes shows one revision, and never a part of a transaction."""
        names = [f"/s/{number:04}" for number in range(500)]
        await storage.transact([], [Put(name, b"0") for name in names])
        done = False

        async def write() -> None:
            for generation in range(1, 6):
                await storage.transact([], [Put(name, b"%d" % generation) for name in names])

        async def read() -> None:
            while not done:
                result = await storage.range("/s/")
                assert len(result.items) == len(names)
                assert {item.mod_revision for item in result.items} == {result.revision}
                assert len({item.value for item in result.items}) == 1
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(3)]
        await write()
        done = True
        await asyncio.gather(*readers)

    async def test_check(self, storage: Storage) -> None:
        """A working store passes its check."""
        await storage.check()


async def _keys(storage: Storage, prefix: str) -> list[str]:
    return [item.key for item in (await storage.range(prefix)).items]
