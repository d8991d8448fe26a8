"""What controllers and library users call: always for one named logical cluster, or for all of them.

Belongs here: the `Client` and `Tap` protocols and the ways to carry them out. Does not belong here: decisions about what to call.
"""

from kcp_py.client.contract import ApiResource, Client, KindSchema, ObjectList, WatchEvent
from kcp_py.client.local import LocalClient
from kcp_py.client.localtap import LocalTap
from kcp_py.client.tap import EVERYTHING, Holder, ObjectChange, ObjectFilter, StoredResource, Tap
from kcp_py.registry.store.collection import Remaining

__all__ = [
    "EVERYTHING",
    "ApiResource",
    "Client",
    "Holder",
    "KindSchema",
    "LocalClient",
    "LocalTap",
    "ObjectChange",
    "ObjectFilter",
    "ObjectList",
    "Remaining",
    "StoredResource",
    "Tap",
    "WatchEvent",
]
