"""Controller `namespaces`: a namespace that is deleted takes the objects in it along.

Source: kubernetes `pkg/controller/namespace/deletion`.
"""

from __future__ import annotations

from typing import Any

from kcp_py.controllers.content import NAMESPACES, delete_namespace_content
from kcp_py.controllers.deletion import DeletionController, finalizers_remain
from kcp_py.controllers.queue import Key
from kcp_py.registry.builtin.namespaces import FINALIZER


class NamespaceController(DeletionController):
    """Empties terminating namespaces."""

    name = "namespaces"
    resource = NAMESPACES
    per_cluster = 4

    async def _empty(self, key: Key, obj: dict[str, Any]) -> int:
        if FINALIZER not in ((obj.get("spec") or {}).get("finalizers") or ()):
            return 0
        remaining = await delete_namespace_content(self._client, key.cluster, key.name)
        if remaining.objects:
            condition = {
                "type": "NamespaceFinalizersRemaining",
                "status": "True",
                "reason": "SomeFinalizersRemain",
                "message": finalizers_remain(remaining, "namespace"),
            }
            await self._report(key, obj, condition)
            return remaining.objects
        await self._let_go(key, obj, FINALIZER)
        return 0
