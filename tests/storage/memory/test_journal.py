"""The in-memory driver with a file: the conformance suite, the model, and the next process."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from kcp_py.storage.contract import CompactedError, Compare, Delete, NoSpaceError, Put, Storage, StorageError, UnavailableError
from kcp_py.storage.memory.journal import JournaledStorage
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite


class TestJournaledStorage(StorageSuite):
    """The suite."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        async with JournaledStorage(tmp_path / "journal") as storage:
            yield storage


_FOLDER = tempfile.TemporaryDirectory()
TestMachine = storage_machine(lambda: JournaledStorage(Path(tempfile.mkdtemp(dir=_FOLDER.name)) / "journal")).TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


async def fill(path: Path) -> None:
    async with JournaledStorage(path) as storage:
        await storage.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1"), Put("/b", b"1")])
        await storage.transact([], [Put("/a", b"2")])
        await storage.transact([], [Delete("/b"), Delete("/absent")])


@pytest.mark.anyio
async def test_a_next_store_has_the_content_and_the_history(tmp_path: Path) -> None:
    """Revisions stay, a watch resumes, and compacted history stays absent."""
    path = tmp_path / "journal"
    await fill(path)
    async with JournaledStorage(path) as storage:
        assert await storage.revision() == 3
        assert await storage.get("/a") == ("/a", b"2", 2, 1)
        assert [item.key for item in (await storage.range("/", revision=1)).items] == ["/a", "/b"]
        async with contextlib.aclosing(storage.watch("/", start_revision=2)) as batches:
            batch = await anext(batches)
        assert [(event.key, event.value, event.mod_revision) for event in batch.events] == [("/a", b"2", 2), ("/b", None, 3)]
        await storage.compact(2)
    async with JournaledStorage(path) as storage:
        with pytest.raises(CompactedError):
            await storage.range("/", revision=1)
        assert await storage.transact([], [Put("/c", b"1")]) == 4


@pytest.mark.anyio
async def test_an_incomplete_record_is_dropped(tmp_path: Path) -> None:
    """At every length of it, and later writes are found behind the complete ones."""
    whole, path = tmp_path / "whole", tmp_path / "journal"
    await fill(whole)
    content = whole.read_bytes()
    async with JournaledStorage(path):
        empty = path.stat().st_size
    found = set()
    for length in range(empty, len(content)):
        path.write_bytes(content[:length])
        async with JournaledStorage(path) as storage:
            revision = await storage.revision()
            assert await storage.transact([], [Put("/next", b"1")]) == revision + 1
        async with JournaledStorage(path) as storage:
            assert await storage.get("/next") == ("/next", b"1", revision + 1, revision + 1)
        found.add(revision)
    assert found == {0, 1, 2}


@pytest.mark.anyio
async def test_a_file_belongs_to_one_store_at_a_time(tmp_path: Path) -> None:
    """The second one says so, and gets it when the first one is left."""
    path = tmp_path / "journal"
    async with JournaledStorage(path):
        with pytest.raises(UnavailableError, match="another process has the store"):
            await JournaledStorage(path, lock_seconds=0).__aenter__()
    async with JournaledStorage(path, lock_seconds=0):
        pass


@pytest.mark.anyio
async def test_other_files_are_refused(tmp_path: Path) -> None:
    """They stay as they are; a link is not followed."""
    path, link = tmp_path / "journal", tmp_path / "link"
    path.write_bytes(b"precious")
    with pytest.raises(StorageError, match="not a journal"):
        await JournaledStorage(path).__aenter__()
    assert path.read_bytes() == b"precious"
    link.symlink_to(path)
    with pytest.raises(OSError, match=r"journal|link"):
        await JournaledStorage(link).__aenter__()


@pytest.mark.anyio
async def test_a_full_disk_refuses_writes_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a record that was written is removed."""
    path = tmp_path / "journal"
    await fill(path)
    really = os.write

    def write(descriptor: int, content: bytes) -> int:
        if len(content) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(descriptor, content[:10])

    async with JournaledStorage(path) as storage:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write)
            with pytest.raises(NoSpaceError):
                await storage.transact([], [Put("/a", b"3")])
        assert await storage.get("/a") == ("/a", b"2", 2, 1)
        await storage.transact([], [Put("/a", b"4")])
    async with JournaledStorage(path) as storage:
        assert await storage.get("/a") == ("/a", b"4", 4, 1)
