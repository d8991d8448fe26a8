"""Deleting what a namespace or a logical cluster holds, before it goes itself."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client import Client, Remaining, StoredResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.builtin.namespaces import FINALIZER as NAMESPACE_FINALIZER
from kcp_py.registry.definition_strategy import CLEANUP_FINALIZER
from kcp_py.tenancy import LOGICAL_CLUSTER

DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")

_GARBAGE_COLLECTION: Final = frozenset(("orphan", "foregroundDeletion"))
"""Where all goes, dependents go too: nobody has to be asked."""

_LAST: Final = (DEFINITIONS.group_resource, NAMESPACES.group_resource)
"""What the rest of a cluster needs until it is gone: objects with finalizers stay served, and stay in their namespaces."""


async def delete_namespace_content(client: Client, cluster: Name, namespace: str) -> Remaining:
    """Delete every object in a namespace. Nothing new may be able to come: the namespace is terminating."""
    resources = [resource for resource in await client.stored_resources(cluster) if resource.namespaced is not False]
    return await _delete(client, cluster, resources, namespace, _GARBAGE_COLLECTION)


async def delete_cluster_content(client: Client, cluster: Name) -> Remaining:
    """Delete everything in a cluster but its LogicalCluster. Nothing new may be able to come: the cluster is terminating."""
    stored = await client.stored_resources(cluster)
    kept = {LOGICAL_CLUSTER.group_resource, *_LAST}
    first = [resource for resource in stored if resource.group_resource not in kept]
    remaining = await _delete(client, cluster, first, "", _GARBAGE_COLLECTION)
    if remaining.objects:
        return remaining
    # Their own finalizers wait for what is gone by now.
    settled = _GARBAGE_COLLECTION | {CLEANUP_FINALIZER, NAMESPACE_FINALIZER}
    last = [resource for resource in stored if resource.group_resource in _LAST]
    return await _delete(client, cluster, last, "", settled)


async def delete_instances(client: Client, cluster: Name, resource: GroupResource) -> Remaining:
    """Delete the objects of one custom resource. Nothing new may be able to come: its definition is terminating."""
    return await client.delete_collection(cluster, StoredResource(resource, custom=True, namespaced=None))


async def _delete(client: Client, cluster: Name, resources: list[StoredResource], namespace: str, settled: frozenset[str]) -> Remaining:
    objects = 0
    finalizers: Counter[str] = Counter()
    for resource in resources:
        remaining = await client.delete_collection(cluster, resource, namespace, settled=settled)
        objects += remaining.objects
        finalizers.update(remaining.finalizers)
    return Remaining(objects, finalizers)
