"""The SQLite driver against the conformance suite and the model."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from kcp_py.storage.contract import Storage
from kcp_py.storage.sqlite import SQLiteStorage, integrity_check
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_suite import StorageSuite


class TestSQLiteStorage(StorageSuite):
    """The suite."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[Storage]:
        async with SQLiteStorage(tmp_path / "store.db") as storage:
            yield storage
        assert integrity_check(tmp_path / "store.db") == []


class _InNewFolder(SQLiteStorage):
    """A store whose file goes away with it."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="kcp-py-test-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(f"{folder}/store.db", progress_interval=0, checkpoint_bytes=100_000)


TestMachine = storage_machine(_InNewFolder).TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
