"""Keys at earlier revisions, with drivers that read them faster than ranges and with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.storage.contract import DamagedError, KeyValue, Put
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.oldkeys import ReadsOldKeys, read_at
from kcp_py.storage.sqlite import SQLiteStorage

pytestmark = pytest.mark.anyio

_LARGE = b"marker" * 2000


async def test_a_driver_with_ranges_only() -> None:
    """A driver that has no method for one key is asked for a range, of which only the key itself is returned."""
    async with MemoryStorage() as storage:
        assert not isinstance(storage, ReadsOldKeys)
        first = await storage.transact([], [Put("/a/b", b"1"), Put("/a/key-2", b"1")])
        await storage.transact([], [Put("/a/b", b"2"), Put("/a/key", b"2")])
        assert await read_at(storage, "/a/b", first) == KeyValue("/a/b", b"1", first, first)
        assert await read_at(storage, "/a/key", first) is None


async def test_damaged_values_have_keys(tmp_path: Path) -> None:
    """The revisions of a key are readable where its value is damaged. The value is refused."""
    path = tmp_path / "store.db"
    async with SQLiteStorage(path) as storage:
        assert isinstance(storage, ReadsOldKeys)
        await storage.transact([], [Put("/a/first", b"1")])  # the first row is read when the file is opened
        await storage.transact([], [Put("/a/damaged", _LARGE)])
    content = path.read_bytes()
    at = content.rindex(_LARGE[:600])  # in the last page of the value, which holds nothing else
    path.write_bytes(content[:at] + b"?" + content[at + 1 :])
    async with SQLiteStorage(path) as storage:
        revision = await storage.transact([], [Put("/b", b"1")])
        await storage.transact([], [Put("/b", b"2")])
        with pytest.raises(DamagedError):
            await read_at(storage, "/a/damaged", revision)
        found = await read_at(storage, "/a/damaged", revision, keys_only=True)
        assert found is not None
        assert (found.create_revision, found.mod_revision) == (2, 2)
