"""The in-memory store, for tests and for servers without persistent state.

Belongs here: the in-memory driver, and its journal for tests. Does not belong here: code that other drivers use.
"""

from __future__ import annotations

from kcp_py.storage.memory.driver import MemoryStorage

__all__ = ["MemoryStorage"]
