"""POST of an object to its collection."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.registry.store import Access
from kcp_py.registry.store import create as create_stored
from kcp_py.registry.store.access import Written
from kcp_py.registry.writerequest import Resolved, WriteRequest


async def create(access: Access, request: WriteRequest, obj: dict[str, Any]) -> Written:
    """Store a new object.

    Args:
        access: the store.
        request: who creates what.
        obj: decoded, pruned and with defaults; changed in place.

    Raises:
        StatusError: 400 for the namespace of another URL, 409, 422 and whatever admission says.
        StaleScopeError: cluster or definition changed meanwhile; retry with fresh ones.
    """
    check_namespace(obj, request.target)
    return await create_stored(access, request, obj)


def check_namespace(obj: dict[str, Any], target: Resolved) -> None:
    """Compare the namespace of a new object with that of the URL; it is removed from cluster-scoped objects.

    Raises:
        StatusError: 400 where they differ.
    """
    given = obj["metadata"].get("namespace")
    if given and not target.served.resource.namespaced:
        # Upstream clears it for cluster-scoped kinds (rest.EnsureObjectNamespaceMatchesRequestNamespace).
        del obj["metadata"]["namespace"]
    elif given and given != target.namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
