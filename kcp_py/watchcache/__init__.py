"""Recent history and fan-out: one watch on the store becomes as many watches as clients ask for.

Belongs here: what every watch of the API has in common - the recent events, who is interested in which, bounded buffers.
Events are still bytes under keys. Does not belong here: objects, selectors, encodings, HTTP.

`Fanout` reads the store's changes once, keeps the latest in a ring and hands each to the `Watcher`s of its resource.
`Monitor` logs and measures the state of the store and of the feed.
"""

from kcp_py.storage.keys import Route
from kcp_py.watchcache.event import ObjectEvent
from kcp_py.watchcache.fanout import Fanout
from kcp_py.watchcache.monitor import Monitor
from kcp_py.watchcache.watcher import WatchEndedError, Watcher, WatchOverflowError

__all__ = ["Fanout", "Monitor", "ObjectEvent", "Route", "WatchEndedError", "WatchOverflowError", "Watcher"]
