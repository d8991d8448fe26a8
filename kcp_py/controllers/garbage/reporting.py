"""Events about owner references that can never be valid.

Source: kubernetes `graph_builder.go`, `reportInvalidNamespaceOwnerRef`.
"""

from __future__ import annotations

import hashlib
from contextlib import aclosing, suppress
from typing import Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client import ApiResource, Client, ObjectFilter, Tap
from kcp_py.controllers.garbage.ownership import Item, Reference, read_facts
from kcp_py.logicalcluster import Name

EVENTS: Final = GroupVersionResource("", "v1", "events")
REASON: Final = "OwnerRefInvalidNamespace"
COMPONENT: Final = "garbage-collector-controller"
_LOOKED_AT: Final = 2_000
"""Objects of the owner's kind among which it is searched for."""


async def report_invalid_owner(
    client: Client, cluster: Name, item: Item, *, served: ApiResource, uid: str, owner: Reference, now: str
) -> None:
    """Write an event about an object whose owner is of a namespaced kind and not in its namespace, once for each pair.

    Args:
        client: of all clusters.
        cluster: the logical cluster.
        item: the object.
        served: its resource.
        uid: of the object.
        owner: the reference that cannot hold.
        now: RFC 3339.
    """
    identity = f"[{owner.api_version}/{owner.kind}, namespace: {item.namespace}, name: {owner.name}, uid: {owner.uid}]"
    namespace = item.namespace or "default"
    once = hashlib.sha256(f"{uid}/{owner.uid}".encode()).hexdigest()[:16]
    involved = {
        "kind": served.kind,
        "namespace": item.namespace,
        "name": item.name,
        "uid": uid,
        "apiVersion": served.api_version,
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
    with suppress(StatusError):  # the event exists already, or the namespace takes no new objects: events are optional
        await client.create(cluster, EVENTS, event)


async def is_elsewhere(tap: Tap, cluster: Name, resource: GroupResource, namespace: str, uid: str) -> bool:
    """Whether an object of a resource has a uid but is not in a namespace, as far as can be said without looking at very many."""
    concerned = ObjectFilter(contains=((f'"{uid}"'.encode(),),))
    async with aclosing(tap.stored_objects(cluster, concerned=concerned, resource=resource, limit=_LOOKED_AT)) as found:
        async for change in found:
            if change.namespace != namespace and change.value is not None and read_facts(change.value).uid == uid:
                return True
    return False
