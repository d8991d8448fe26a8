"""POST of an object to its collection."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.registry.writerequest import Resolved


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
