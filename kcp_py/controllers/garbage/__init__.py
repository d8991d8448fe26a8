"""Controller `garbage-collector-controller`: objects whose owners are gone go too.

Belongs here: what owner references mean, and the collector that acts on them. Does not belong here: what deletion itself means, which is
the registry's.
"""

from kcp_py.controllers.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
