"""One embedded store for several processes of a machine: the process that owns it serves the contract, the others read the file themselves.

Belongs here: the messages between the processes, the side of the owner, the driver of the others, and the revisions that they share.
Does not belong here: which processes there are, and what happens when one ends (`cli.workers`).
"""

from __future__ import annotations

from kcp_py.storage.shared.driver import SharedStorage
from kcp_py.storage.shared.owner import StorageServer
from kcp_py.storage.shared.revisions import SharedRevisions

__all__ = ["SharedRevisions", "SharedStorage", "StorageServer"]
