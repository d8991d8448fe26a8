"""`DelegatedNamespaces`: nothing is created in a namespace that the other API server does not have, or is deleting.

Source: k8s.io/apiserver `pkg/admission/plugin/namespace/lifecycle`, which asks a cache, and the server itself about a namespace that the
cache does not have. An object that is stored while its namespace begins to end is deleted by the namespace controller of the other server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

PATH: Final = "/api/v1/namespaces"
_NAMESPACES: Final = GroupResource("", "namespaces")


class DelegatedNamespaces(AdmissionPlugin):
    """Refuses creates in missing and in terminating namespaces."""

    name = "DelegatedNamespaceLifecycle"
    operations = frozenset[Operation]({"CREATE"})

    def __init__(self, get: Callable[[str], Awaitable[Any]]) -> None:
        """Begin with no namespaces.

        Args:
            get: reads a path of the other server; `Delegate.get`.
        """
        self._get = get
        # Whether a namespace is being deleted, by its name.
        self._terminating: dict[str, bool] = {}

    def replace(self, namespaces: list[dict[str, Any]]) -> None:
        """The namespaces are these."""
        self._terminating = {one["metadata"]["name"]: _is_terminating(one) for one in namespaces}

    def change(self, kind: str, namespace: dict[str, Any]) -> None:
        """A namespace has come, changed or gone."""
        name = namespace["metadata"]["name"]
        if kind == "DELETED":
            self._terminating.pop(name, None)
        else:
            self._terminating[name] = _is_terminating(namespace)

    async def mutate(self, attributes: Attributes) -> None:
        """Check the namespace of a new object.

        Raises:
            StatusError: 404 for a missing namespace, 403 for a terminating one, 503 where the other server does not answer.
        """
        resource, namespace = attributes.resource, attributes.namespace
        if not resource.namespaced:
            return
        terminating = self._terminating.get(namespace)
        if terminating is None:
            terminating = await self._ask(namespace)
        if terminating:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            refusal = errors.forbidden(resource.group_resource, attributes.name, text)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refusal.details = {**(refusal.details or {}), "causes": [cause]}
            raise refusal

    async def _ask(self, namespace: str) -> bool:
        try:
            found = await self._get(f"{PATH}/{namespace}")
        except StatusError as error:
            if error.code == 404:
                raise errors.not_found(_NAMESPACES, namespace) from None
            raise errors.service_unavailable(f'namespace "{namespace}" cannot be looked up: {error.message}') from None
        return _is_terminating(found)


def _is_terminating(namespace: dict[str, Any]) -> bool:
    return bool(namespace["metadata"].get("deletionTimestamp")) or (namespace.get("status") or {}).get("phase") == "Terminating"
