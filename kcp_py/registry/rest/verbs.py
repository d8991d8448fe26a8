"""`Verbs`: which `RestStorage` serves a request."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.computed import ComputedObjects
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import RestStorage
from kcp_py.registry.rest.stored import StoredObjects
from kcp_py.registry.writerequest import Resolved


def unknown_subresource(resource: ServedResource, name: str) -> StatusError:
    """404 for a subresource that a resource does not have. For custom resources the message says that there is no object, even if there is.

    Source: k8s.io/apiextensions-apiserver `pkg/apiserver/customresource_handler.go`.
    """
    return errors.unserved() if resource.typed else errors.not_found(resource.group_resource, name)


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
                raise unknown_subresource(target.resource, target.name)
            if verb not in subresource.verbs or subresource.connections is not None or subresource.streams:
                raise errors.method_not_supported(target.resource.group_resource, verb)
        return self.of(target)
