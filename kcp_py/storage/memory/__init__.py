"""The store that lives in memory: for tests and for servers whose state may vanish with them.

Belongs here: the in-memory driver. Does not belong here: anything that another driver uses.
"""

from __future__ import annotations

from kcp_py.storage.memory.driver import MemoryStorage

__all__ = ["MemoryStorage"]
