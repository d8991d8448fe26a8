"""The store of the options, and the key that servers of one store share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kcp_py.controlplane.datastore import check_room, choose_storage, continue_token_key, database_file
from kcp_py.options import Options
from kcp_py.storage.contract import Compare, NoSpaceError, Operation, Put
from kcp_py.storage.keys import internal_key
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage

ROOT = "/registry"
KEY = internal_key(ROOT, "continue-token-key")

pytestmark = pytest.mark.anyio


def test_the_store_of_the_options(tmp_path: Path) -> None:
    """Either of the embedded stores is made, and not opened: no file is created."""
    assert isinstance(choose_storage(Options(storage="memory")), MemoryStorage)
    assert isinstance(choose_storage(Options(storage="sqlite", root_directory=tmp_path)), SQLiteStorage)
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_the_store(tmp_path: Path) -> None:
    """A store in memory has none, nor has one that takes the place of the store of the options. A wrapped store has its own."""
    options = Options(storage="sqlite", root_directory=tmp_path)
    assert database_file(None, options) == database_file(lambda storage: storage, options) == options.database_file
    assert database_file(MemoryStorage(), options) is None
    assert database_file(None, Options(storage="memory")) is None


async def test_the_key_of_continue_tokens_is_made_once() -> None:
    """Each store has a key of its own, which later starts find."""
    async with MemoryStorage() as storage, MemoryStorage() as other:
        key = await continue_token_key(storage, ROOT)
        assert len(key) == 32
        assert await continue_token_key(storage, ROOT) == key
        assert await continue_token_key(other, ROOT) != key


async def test_the_key_of_another_server_is_used() -> None:
    """A server that finds no key, and then is not the first to store one, takes the stored key."""

    class LateStorage(MemoryStorage):
        async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
            if await self.get(KEY) is None:
                await super().transact((), [Put(KEY, b"of another server")])
            return await super().transact(compares, operations)

    async with LateStorage() as storage:
        assert await continue_token_key(storage, ROOT) == b"of another server"


async def test_a_full_disk_is_reported() -> None:
    """The check of the health page fails as long as the store takes deletions alone."""

    class Room:
        full = False

    room = Room()
    await check_room(room)
    room.full = True
    with pytest.raises(NoSpaceError, match="nothing but deletions"):
        await check_room(room)
