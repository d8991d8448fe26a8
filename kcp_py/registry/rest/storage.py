"""`RestStorage`: what serves a resource, or a subresource, that is no stored object.

Source: k8s.io/apiserver `pkg/registry/rest` (`Getter`, `Lister`, `Watcher`, `Creater`, `Updater`, `GracefulDeleter`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.meta.options import ListOptions
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.request.context import RequestContext

Object = dict[str, Any]
"""Decoded JSON. `metadata.name` is required, `metadata.namespace` where the resource is namespaced; the server adds apiVersion and kind."""

_METHODS: Final = {
    "create": "create",
    "delete": "delete",
    "get": "get",
    "list": "list",
    "update": "update",
    "watch": "watch",
}


class ReadRequest(NamedTuple):
    """A get, a list or a watch."""

    context: RequestContext
    """Who asks, and where warnings go."""
    target: Resolved
    """The name is empty for a list and a watch."""
    options: ListOptions = ListOptions()
    """Selectors, limit and resourceVersion. The server applies selectors and limits itself: an implementation may use them to read less."""


class ObjectEvent(NamedTuple):
    """One change that a watch shows."""

    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    obj: Object


class RestStorage:
    """Serves a resource or a subresource by code. Override the verbs that it has; discovery, requests and OpenAPI follow.

    Every method is called for one logical cluster, `request.target.scope`, after authentication and authorization. Objects that it returns
    belong to the server, which changes them. A refusal is a `StatusError`, see `apimachinery.errors`.
    """

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that the class overrides, in the order of discovery."""
        return tuple(verb for verb, method in _METHODS.items() if getattr(type(self), method) is not getattr(RestStorage, method))

    async def get(self, request: ReadRequest) -> Object:
        """One object by its name.

        Raises:
            StatusError: 404.
        """
        raise errors.method_not_supported(request.target.resource.group_resource, "get")

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        """The objects of a namespace, or of all namespaces where `request.target.namespace` is empty."""
        raise errors.method_not_supported(request.target.resource.group_resource, "list")

    def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        """The objects as ADDED, then every change. The generator is closed when the client leaves."""
        raise errors.method_not_supported(request.target.resource.group_resource, "watch")

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """What a POST answers with: the created object, or any other document.

        Args:
            request: who posts to what; for a subresource, the name is that of its object.
            obj: the decoded body.
        """
        del obj
        raise errors.method_not_supported(request.target.resource.group_resource, "create")

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        """What a PUT answers with."""
        del obj
        raise errors.method_not_supported(request.target.resource.group_resource, "update")

    async def delete(self, request: WriteRequest) -> Object | None:
        """Delete an object; what the answer shows, None for a Status."""
        raise errors.method_not_supported(request.target.resource.group_resource, "delete")
