"""The embedded store: one SQLite file, one process, durable writes committed in groups.

Belongs here: all code that depends on SQLite. Does not belong here: code that other drivers could use (`storage.feed`), the policy for the
amount of history (`storage.compaction`).
"""

from __future__ import annotations

from kcp_py.storage.sqlite.driver import SQLiteStorage
from kcp_py.storage.sqlite.errors import CorruptDatabaseError, IncompatibleDatabaseError, LockedDatabaseError
from kcp_py.storage.sqlite.integrity import integrity_check

__all__ = [
    "CorruptDatabaseError",
    "IncompatibleDatabaseError",
    "LockedDatabaseError",
    "SQLiteStorage",
    "integrity_check",
]
