"""Reads of a shared store from memory, as fresh as reads of the store itself.

Belongs here: the read index, the position of the watch, and the cached part of the store. Does not belong here: any particular store, and
any rule about objects.

`ReadIndex` says how far the store has come: one answer serves all reads that waited for it. `Position` says how far the watch has come.
`WatchedStorage` answers a read from memory when the watch has reached the read index, and from the store otherwise.
"""

from kcp_py.storage.watched.driver import Followed, WatchedStorage
from kcp_py.storage.watched.readindex import JointReadIndex, ReadIndex

__all__ = ["Followed", "JointReadIndex", "ReadIndex", "WatchedStorage"]
