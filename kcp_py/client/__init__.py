"""What controllers and library users call: always for one named logical cluster, or for all of them.

Belongs here: the `Client` protocol and the ways to carry it out. Does not belong here: decisions about what to call.
"""

from kcp_py.client.contract import (
    Change,
    Client,
    Concerned,
    Holder,
    KnownKind,
    ObjectChange,
    ObjectList,
    ObjectName,
    StoredResource,
    WatchEvent,
)
from kcp_py.client.local import LocalClient
from kcp_py.registry.store.collection import Remaining

__all__ = [
    "Change",
    "Client",
    "Concerned",
    "Holder",
    "KnownKind",
    "LocalClient",
    "ObjectChange",
    "ObjectList",
    "ObjectName",
    "Remaining",
    "StoredResource",
    "WatchEvent",
]
