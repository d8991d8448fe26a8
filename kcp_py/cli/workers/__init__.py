"""`kcp-py start --workers N`: several processes that serve one port and one store.

Belongs here: the processes, their start, their ends, and the part of each. Does not belong here: how they share the store
(`storage.shared`), and all that one process alone does, too (`cli.process`).
"""

from __future__ import annotations
