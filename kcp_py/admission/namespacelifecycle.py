"""`NamespaceLifecycle`: nothing is created in a namespace that does not exist or is being deleted.

Source: k8s.io/apiserver `pkg/admission/plugin/namespace/lifecycle`. Upstream asks a cache and waits for it to catch up; here the decision
holds in the transaction that stores the object, so that no object outlives its namespace.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.namespaces import lasts, namespace_guard
from kcp_py.storage.contract import Storage

_ACCESS_REVIEWS: Final = GroupResource("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle(AdmissionPlugin):
    """Refuses creates in missing and in terminating namespaces."""

    name = "NamespaceLifecycle"
    conforming = True
    operations = frozenset[Operation]({"CREATE"})

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Check the namespace of a new object, before any other plugin sees it.

        Raises:
            StatusError: 404 for a missing namespace, 403 for a terminating one.
        """
        resource, cluster_state = attributes.resource, attributes.request.target.cluster_state
        # Reviews of access are answered for any namespace: a refusal would tell whether it exists.
        if not resource.namespaced or resource.group_resource == _ACCESS_REVIEWS:
            return None
        # A coroutine is made only where something has to be read.
        return None if lasts(cluster_state, attributes.namespace) else self._guard(attributes)

    async def _guard(self, attributes: Attributes) -> None:
        cluster_state = attributes.request.target.cluster_state
        resource, namespace, name = attributes.resource, attributes.namespace, attributes.name
        attributes.compares.extend(await namespace_guard(self._storage, resource, cluster_state, namespace, name=name))
