"""What controllers and library users call: always for one named logical cluster, or for all of them.

Belongs here: the `Client` and `Tap` protocols and the ways to carry them out. Does not belong here: decisions about what to call.
"""

from kcp_py.client.contract import ApiResource, Client, ObjectList, WatchEvent
from kcp_py.client.local import LocalClient
from kcp_py.client.localtap import LocalTap
from kcp_py.client.tap import Concerned, Holder, ObjectChange, StoredResource, Tap
from kcp_py.registry.store.collection import Remaining

__all__ = [
    "ApiResource",
    "Client",
    "Concerned",
    "Holder",
    "LocalClient",
    "LocalTap",
    "ObjectChange",
    "ObjectList",
    "Remaining",
    "StoredResource",
    "Tap",
    "WatchEvent",
]
