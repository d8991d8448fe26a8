"""`componentstatuses`: whether the store answers. Looked at for each request, never stored, and deprecated by upstream since 1.19.

kube-apiserver asks its scheduler and its controller manager, too. This server has no scheduler; its controllers have metrics and a Lease.

Source: kubernetes `pkg/registry/core/componentstatus`, `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.table import NAME, LastingCell
from kcp_py.apis.typed.cells import Object, column, lasting, objects_at, text
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.storage import ReadRequest, RestStorage
from kcp_py.storage.contract import Storage, StorageError
from kcp_py.storage.keys import internal_key

STORE: Final = "etcd-0"
"""The name that clients know, whichever store it is."""
LONGEST_CHECK_SECONDS: Final = 10.0
DEPRECATED: Final = "v1 ComponentStatus is deprecated in v1.19+"

_TEXT: Final = {"type": "string"}
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "ComponentStatus (and ComponentStatusList) holds the cluster validation info. Deprecated.",
    "properties": {
        "conditions": {
            "type": "array",
            "description": "What is wrong with the component.",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": dict.fromkeys(("type", "status", "message", "error"), _TEXT),
            },
        }
    },
}


class ComponentStatuses(RestStorage):
    """Reads a key of the store."""

    def __init__(self, storage: Storage, root: str) -> None:
        """Look at a store. `root` is the prefix of its keys."""
        self._storage: Final = storage
        self._key: Final = internal_key(root, "component-status")

    async def get(self, request: ReadRequest) -> dict[str, Any]:
        """The status of the store.

        Raises:
            StatusError: 404 for any other name.
        """
        request.context.warnings.append(DEPRECATED)
        if request.target.name != STORE:
            raise errors.not_found(GroupResource("", "componentstatus"), request.target.name)
        return await self._status()

    async def list(self, request: ReadRequest) -> Sequence[dict[str, Any]]:
        """The status of the store alone."""
        request.context.warnings.append(DEPRECATED)
        return [await self._status()]

    async def _status(self) -> dict[str, Any]:
        healthy, message = "True", "ok"
        try:
            async with asyncio.timeout(LONGEST_CHECK_SECONDS):
                await self._storage.get(self._key)
        except (StorageError, TimeoutError):
            # The reason is in the log of the server: tenants read this.
            healthy, message = "False", "the store does not answer"
        return {"metadata": {"name": STORE}, "conditions": [{"type": "Healthy", "status": healthy, "message": message}]}


def _condition(member: str) -> LastingCell:
    def find(obj: Object) -> str:
        found = next((one for one in objects_at(obj, "conditions") if one.get("type") == "Healthy"), {})
        value = text(found.get(member))
        return {"True": "Healthy", "False": "Unhealthy"}.get(value, "Unknown") if member == "status" else value

    return lasting(find)


def component_statuses(storage: Storage, root: str) -> ServedResource:
    """The resource as clusters serve it. `root` is the prefix of the store's keys."""
    resource = ComputedResource(
        group="",
        version="v1",
        resource="componentstatuses",
        kind="ComponentStatus",
        rest=ComponentStatuses(storage, root),
        singular="componentstatus",
        namespaced=False,
        schema=_SCHEMA,
        short_names=("cs",),
    )
    columns = (NAME, *(column(member.capitalize(), _condition(member)) for member in ("status", "message", "error")))
    return replace(resource.served(root), columns=columns)
