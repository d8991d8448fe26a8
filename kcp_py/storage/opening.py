"""Opens the store of the settings. A driver and its library are imported only if they are selected."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kcp_py.storage.contract import Storage

StorageKind = Literal["memory", "sqlite"]
"""The embedded drivers. The `etcd` package has its own constructor, because it has many settings."""


def open_storage(kind: StorageKind, *, path: str | Path | None = None, reserve_bytes: int = 0) -> Storage:
    """The store of a driver, to be entered with `async with`.

    Args:
        kind: the driver.
        path: the database file, required for `sqlite` and not used otherwise.
        reserve_bytes: disk space reserved for deletions on a full disk; for `sqlite` only.

    Raises:
        ValueError: there is no such driver, or no path.
    """
    if kind == "memory":
        from kcp_py.storage.memory import MemoryStorage  # noqa: PLC0415

        return MemoryStorage()
    if kind != "sqlite":
        raise ValueError(f'there is no storage "{kind}"; there are etcd, memory and sqlite')
    if path is None:
        raise ValueError("the sqlite store needs the path of its file")
    from kcp_py.storage.sqlite import SQLiteStorage  # noqa: PLC0415

    return SQLiteStorage(path, reserve_bytes=reserve_bytes)
