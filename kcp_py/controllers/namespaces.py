"""Controller `namespaces`: a namespace that is deleted takes the objects in it along.

Source: kubernetes `pkg/controller/namespace/deletion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Change, Client, Remaining
from kcp_py.controllers.conditions import with_condition
from kcp_py.controllers.content import NAMESPACE_FINALIZER, NAMESPACES, delete_namespace_content
from kcp_py.controllers.queue import Key

_DELETION: Final = b'"deletionTimestamp":"'


class NamespaceController:
    """Empties terminating namespaces. While one terminates nothing can be created in it, so what is found empty stays empty."""

    name = "namespaces"
    resource = NAMESPACES
    per_cluster = 4

    def __init__(self, client: Client, *, now: Callable[[], str]) -> None:
        self._client = client
        self._now = now

    def wanted(self, value: bytes) -> bool:
        """Namespaces that were being deleted when the server stopped."""
        return _DELETION in value

    def keys(self, change: Change) -> Iterable[Key]:
        """The namespace, once it is being deleted."""
        if change.value is not None and _DELETION in change.value:
            yield Key(change.cluster, change.name)

    async def reconcile(self, key: Key) -> int:
        try:
            obj = await self._client.get(key.cluster, NAMESPACES, "", key.name)
        except StatusError as error:
            if error.code == 404:
                return 0
            raise
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or NAMESPACE_FINALIZER not in ((obj.get("spec") or {}).get("finalizers") or ()):
            return 0
        remaining = await delete_namespace_content(self._client, key.cluster, key.name)
        if remaining.objects:
            await self._report(key, obj, remaining)
            return remaining.objects
        await self._client.remove_finalizer(key.cluster, NAMESPACES, "", key.name, finalizer=NAMESPACE_FINALIZER, uid=metadata["uid"])
        return 0

    async def _report(self, key: Key, obj: dict[str, Any], remaining: Remaining) -> None:
        waiting = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remaining.finalizers.items()))
        condition = {
            "type": "NamespaceFinalizersRemaining",
            "status": "True",
            "reason": "SomeFinalizersRemain",
            "message": f"Some content in the namespace has finalizers remaining: {waiting}",
        }
        status = with_condition(obj.get("status") or {}, condition, self._now())
        if status is not None:
            await self._client.update_status(key.cluster, NAMESPACES, {**obj, "status": status})
