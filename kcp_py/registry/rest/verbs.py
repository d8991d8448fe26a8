"""`Verbs`: which `RestStorage` serves a request."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery import errors
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

    def find(self, target: Resolved, verb: str) -> StoredObjects | ComputedObjects:
        """`of`, for a target whose subresource has not been checked.

        Raises:
            StatusError: 404 for a subresource that the resource does not have, 405 for a verb that the subresource does not have.
        """
        if target.subresource:
            subresource = target.resource.subresources.get(target.subresource)
            if subresource is None:
                raise errors.unknown_path()
            if verb not in subresource.verbs:
                raise errors.method_not_supported(target.resource.group_resource, verb)
        return self.of(target)
