"""Stores are opened by kind, and a driver that is not used is not imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.opening import open_storage
from kcp_py.storage.sqlite import SQLiteStorage


def test_kinds(tmp_path: Path) -> None:
    """Each kind is its driver."""
    assert isinstance(open_storage("memory"), MemoryStorage)
    assert isinstance(open_storage("sqlite", path=tmp_path / "store.db"), SQLiteStorage)


def test_sqlite_needs_a_path() -> None:
    """SQLite without a file is refused."""
    with pytest.raises(ValueError, match="path"):
        open_storage("sqlite")


def test_a_driver_that_does_not_exist_is_refused() -> None:
    """With the names that there are, and no word of another driver."""
    with pytest.raises(ValueError, match='there is no storage "mem"; there are etcd, memory and sqlite'):
        open_storage("mem")  # type: ignore[arg-type]


def test_drivers_are_imported_late() -> None:
    """Importing the storage package, and opening one kind, imports no other driver's library."""
    program = (
        "import sys, kcp_py.storage, kcp_py.storage.opening;"
        "kcp_py.storage.opening.open_storage('memory');"
        "sys.exit(' '.join({'apsw', 'grpc', 'kcp_py.storage.sqlite'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.stderr.strip() == ""
