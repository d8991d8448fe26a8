"""Recent history and fan-out: one watch of the store serves the watches of all clients.

Belongs here: the common part of all watches of the API: recent events, subscriptions, bounded buffers. Events are bytes under keys.
Does not belong here: objects, selectors, encodings, HTTP.

`Fanout` reads the changes of the store once, keeps the latest in a ring, and passes each to the `Watcher`s of its resource.
`Deliveries` has events of watchers that sleep written without waking them.
`Monitor` logs and measures the state of the store and of the fan-out.
"""

from kcp_py.storage.keys import Route
from kcp_py.watchcache.deliveries import Deliveries
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.fanout import Fanout
from kcp_py.watchcache.monitor import Monitor
from kcp_py.watchcache.watcher import WatchCutError, WatchEndedError, Watcher, WatchOverflowError, WatchRevokedError

__all__ = [
    "Deliveries",
    "Fanout",
    "Monitor",
    "ObjectEvent",
    "Route",
    "WatchCutError",
    "WatchEndedError",
    "WatchOverflowError",
    "WatchRevokedError",
    "Watcher",
]
