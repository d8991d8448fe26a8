"""`Verbs`: which `RestStorage` serves a request."""

from __future__ import annotations

from typing import Final

from kcp_py.registry.rest.computed import ComputedObjects
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import RestStorage
from kcp_py.registry.rest.stored import StoredObjects
from kcp_py.registry.writerequest import Resolved


class Verbs:
    """The one door to resources and subresources: HTTP, the in-process client and controllers go through it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.stored: Final = StoredObjects(registry)

    def of(self, target: Resolved) -> StoredObjects | ComputedObjects:
        """What serves the requests for a target."""
        resource = target.served.resource
        rest = resource.subresources[target.subresource].rest if target.subresource else resource.rest
        if rest is None:
            return self.stored
        assert isinstance(rest, RestStorage), "resources are served by storages"
        return ComputedObjects(self._registry, rest)
