"""`OwnerReferences`: changes the owner references of objects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client
from kcp_py.controllers.garbage.ownership import Item
from kcp_py.logicalcluster import Name


class OwnerReferences:
    """The owner references of stored objects."""

    def __init__(self, client: Client) -> None:
        """Prepare. The client reads and writes the objects."""
        self._client = client

    async def drop(self, cluster: Name, resource: GroupVersionResource, item: Item, uid: str, owners: Collection[str]) -> None:
        """Take owners, by their uids, from an object (of that uid, if one is given)."""

        def change(references: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [reference for reference in references if reference["uid"] not in owners]

        await self._rewrite(cluster, resource, item, uid, change)

    async def unblock(self, cluster: Name, resource: GroupVersionResource, item: Item, uid: str) -> None:
        """Let an object block the deletion of none of its owners."""

        def change(references: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [
                {**reference, "blockOwnerDeletion": False} if reference.get("blockOwnerDeletion") else reference for reference in references
            ]

        await self._rewrite(cluster, resource, item, uid, change)

    async def _rewrite(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        item: Item,
        uid: str,
        change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    ) -> None:
        """Change the owner references of an object; a missing one is not an error."""
        try:
            obj = await self._client.get(cluster, resource, item.namespace, item.name)
            metadata = dict(obj["metadata"])
            before = metadata.get("ownerReferences") or []
            after = change(before)
            if (uid and metadata["uid"] != uid) or after == before:
                return
            if after:
                metadata["ownerReferences"] = after
            else:
                del metadata["ownerReferences"]
            await self._client.update(cluster, resource, {**obj, "metadata": metadata})
        except StatusError as error:
            if error.code != 404:
                raise
