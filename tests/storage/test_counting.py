"""Keys are counted up to a bound, with drivers that have a method for that and with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.storage.contract import CompactedError, Delete, FutureRevisionError, Put, Storage
from kcp_py.storage.counting import CountsKeys, count_keys
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage, counting

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("driver", ["memory", "sqlite"])
async def test_it_is_the_number_of_keys(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the present and at earlier revisions, from a key on, or one more than the bound."""
    monkeypatch.setattr(counting, "_COUNTED", 30)
    async with SQLiteStorage(tmp_path / "kcp.db") if driver == "sqlite" else MemoryStorage() as storage:
        assert isinstance(storage, CountsKeys) is (driver == "sqlite")
        names = [f"/a/{number:03}" for number in range(100)]
        await storage.transact((), [Put(name, b"1") for name in names])
        first = await storage.transact((), [Put("/a", b"1"), Put("/b/1", b"1")])
        await storage.transact((), [Delete(name) for name in names[::3]])
        last = await storage.transact((), [Put(f"{names[7]}/x", b"1"), Put(names[8], b"2")])
        for revision in (0, first, last):
            for start in ("", names[0], names[33], f"{names[33]}\x00", names[-1], "/b"):
                found = await storage.range("/a/", start=start, revision=revision)
                for most in (1, 29, 30, 31, 59, 60, 66, 67, 68, 99, 100, 101, 1_000):
                    expected = min(len(found.items), most + 1)
                    assert await count_keys(storage, "/a/", start=start, most=most, revision=revision) == expected
        await _check_errors(storage, last)


async def _check_errors(storage: Storage, revision: int) -> None:
    await storage.compact(revision)
    with pytest.raises(FutureRevisionError):
        await count_keys(storage, "/a/", most=10, revision=revision + 1)
    with pytest.raises(CompactedError):
        await count_keys(storage, "/a/", most=10, revision=revision - 1)
