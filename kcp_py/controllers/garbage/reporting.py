"""Telling of owner references that can never hold.

Source: kubernetes `graph_builder.go`, `reportInvalidNamespaceOwnerRef`.
"""

from __future__ import annotations

import hashlib
from contextlib import aclosing, suppress
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client import Client
from kcp_py.controllers.garbage.ownership import Item, Reference, read_facts
from kcp_py.logicalcluster import Name

EVENTS: Final = GroupVersionResource("", "v1", "events")
REASON: Final = "OwnerRefInvalidNamespace"
COMPONENT: Final = "garbage-collector-controller"
_LOOKED_AT: Final = 2_000
"""Objects of the owner's kind among which it is searched for."""


async def report_invalid_owner(client: Client, cluster: Name, item: Item, obj: dict[str, Any], owner: Reference, *, now: str) -> None:
    """Write an event about an object whose owner is of a namespaced kind and not in its namespace, once for each of them."""
    metadata = obj["metadata"]
    identity = f"[{owner.api_version}/{owner.kind}, namespace: {item.namespace}, name: {owner.name}, uid: {owner.uid}]"
    namespace = item.namespace or "default"
    once = hashlib.sha256(f"{metadata['uid']}/{owner.uid}".encode()).hexdigest()[:16]
    involved = {
        "kind": obj["kind"],
        "namespace": item.namespace,
        "name": item.name,
        "uid": metadata["uid"],
        "apiVersion": obj["apiVersion"],
    }
    event = {
        "metadata": {"name": f"{item.name}.{once}", "namespace": namespace},
        "involvedObject": {name: value for name, value in involved.items() if value},
        "reason": REASON,
        "message": f'ownerRef {identity} does not exist in namespace "{item.namespace}"',
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }
    with suppress(StatusError):  # it is told already, or the namespace takes nothing new: nobody waits for an event
        await client.create(cluster, EVENTS, event)


async def is_elsewhere(client: Client, cluster: Name, resource: GroupResource, namespace: str, uid: str) -> bool:
    """Whether an object of a resource has a uid but is not in a namespace, as far as can be said without looking at very many."""
    wanted = f'"{uid}"'.encode()

    def concerned(resource: GroupResource, value: bytes | None, previous: bytes | None) -> bool:
        del resource, previous
        return value is not None and wanted in value

    async with aclosing(client.stored_objects(cluster, concerned=concerned, resource=resource, limit=_LOOKED_AT)) as found:
        async for change in found:
            if change.namespace != namespace and change.value is not None and read_facts(change.value).uid == uid:
                return True
    return False
