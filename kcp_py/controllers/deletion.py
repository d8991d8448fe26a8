"""Common parts of the controllers of namespaces and of logical clusters: their content is deleted with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers import objects
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key

DELETION_TIMESTAMP: Final = b'"deletionTimestamp":"'
"""In the bytes of objects that are being deleted, and of few others."""


class DeletionController(ABC):
    """Deletes the content of a terminating object. Nothing can be created in it meanwhile, so it stays empty."""

    name: str
    resource: GroupVersionResource
    per_cluster: int
    wanted = ObjectFilter(contains=((DELETION_TIMESTAMP,),))
    """Objects that may need work when the controller starts."""

    def __init__(self, client: Client, tap: Tap, *, now: Callable[[], str]) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            tap: deletes the content.
            now: the time as RFC 3339.
        """
        self._client = client
        self._tap = tap
        self._now = now

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """The resource itself: objects that were being deleted when the server stopped, and changes."""
        return (ControllerSource(self.resource, self.keys, self.wanted),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The object itself, once it is being deleted."""
        if change.value is not None and DELETION_TIMESTAMP in change.value:
            yield Key(change.cluster, change.namespace, change.name)

    async def reconcile(self, key: Key) -> int | Later:
        """`Controller.reconcile`."""
        obj = await objects.find(self._client, self.resource, key)
        if obj is None:
            return 0
        if not obj["metadata"].get("deletionTimestamp"):
            return await self._before_deletion(key, obj)
        return await self._empty(key, obj)

    async def _before_deletion(self, key: Key, obj: dict[str, Any]) -> int | Later:
        """`reconcile` of an object that is not being deleted."""
        del key, obj
        return 0

    @abstractmethod
    async def _empty(self, key: Key, obj: dict[str, Any]) -> int | Later:
        """`reconcile` of an object that is being deleted."""

    async def _report(self, key: Key, obj: Mapping[str, Any], *conditions: Mapping[str, Any]) -> None:
        await objects.report(self._client, self.resource, key, obj=obj, conditions=conditions, now=self._now())

    async def _let_go(self, key: Key, obj: Mapping[str, Any], finalizer: str) -> None:
        uid = obj["metadata"]["uid"]
        await self._tap.remove_finalizer(key.cluster, self.resource, "", key.name, finalizer=finalizer, uid=uid)


def finalizers_remain(finalizers: Mapping[str, int], holder: str) -> str:
    """The message about content that waits for its finalizers, in upstream's words.

    Args:
        finalizers: with the number of objects that wait for each.
        holder: what the content is in.
    """
    waiting = ", ".join(sorted(f"{name} in {count} resource instances" for name, count in finalizers.items()))
    return f"Some content in the {holder} has finalizers remaining: {waiting}"
