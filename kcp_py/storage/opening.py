"""Opens the store that the settings name. Drivers are imported here and only when chosen, so a driver's library costs nothing elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kcp_py.storage.contract import Storage

StorageKind = Literal["memory", "sqlite"]
"""The drivers that need no server; the `etcd` package has a constructor of its own, because its settings are many."""


def open_storage(kind: StorageKind, *, path: str | Path | None = None, reserve_bytes: int = 0) -> Storage:
    """The store of a kind, to be entered with `async with`.

    Args:
        kind: which driver.
        path: the database file; for `sqlite` only, where it is needed.
        reserve_bytes: room on the disk that is kept for deletions once it is full; for `sqlite` only.
    """
    if kind == "memory":
        from kcp_py.storage.memory import MemoryStorage  # noqa: PLC0415

        return MemoryStorage()
    if path is None:
        raise ValueError("the sqlite store needs the path of its file")
    from kcp_py.storage.sqlite import SQLiteStorage  # noqa: PLC0415

    return SQLiteStorage(path, reserve_bytes=reserve_bytes)
