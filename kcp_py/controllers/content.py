"""Deleting what a namespace or a logical cluster holds, before it goes itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import CRDS, NAMESPACES, GroupResource
from kcp_py.apis.apiextensions.strategy import CLEANUP_FINALIZER
from kcp_py.apis.core.namespaces import FINALIZER as NAMESPACE_FINALIZER
from kcp_py.apis.kcp.logicalclusters import NAME
from kcp_py.client import Holder, Remaining, StoredResource, Tap
from kcp_py.logicalcluster import Name
from kcp_py.tenancy import LOGICAL_CLUSTER

_PODS: Final = GroupResource("", "pods")

_GARBAGE_COLLECTION: Final = frozenset(("orphan", "foregroundDeletion"))
"""Where all content is deleted, dependents are deleted too: no policy is needed."""

_LAST: Final = (CRDS.group_resource, NAMESPACES.group_resource)
"""What the rest of a cluster needs until it is gone: objects with finalizers stay served, and stay in their namespaces."""


class Content(NamedTuple):
    """What a deletion has left of the content of something."""

    resources: Mapping[GroupResource, int]
    """Resource -> how many of its objects wait for their finalizers; none for nothing."""
    finalizers: Mapping[str, int]
    """Finalizer -> how many objects wait for it."""
    failures: Sequence[StatusError]
    """Why some resources could not be deleted, or not all of their objects."""

    @property
    def objects(self) -> int:
        """How many objects wait for their finalizers."""
        return sum(self.resources.values())


async def delete_namespace_content(tap: Tap, cluster: Name, namespace: str, *, uid: str) -> Content:
    """Delete every object in a namespace, pods before anything else. Nothing new may be able to come: the namespace is terminating.

    Pods may need what they use until they are gone (KEP-5080, ordered namespace deletion).
    """
    holder = Holder(NAMESPACES, namespace, uid)
    resources = [resource for resource in await tap.stored_resources(cluster) if resource.namespaced is not False]
    pods = [resource for resource in resources if resource.group_resource == _PODS]
    first = await _delete(tap, cluster, pods, namespace, settled=_GARBAGE_COLLECTION, holder=holder)
    if first.resources or first.failures:
        return first
    return await _delete(tap, cluster, resources, namespace, settled=_GARBAGE_COLLECTION, holder=holder)


async def delete_cluster_content(tap: Tap, cluster: Name, *, uid: str) -> Content:
    """Delete everything in a cluster but its LogicalCluster. Nothing new may be able to come: the cluster is terminating.

    Raises:
        StatusError: something could not be deleted.
    """
    holder = Holder(LOGICAL_CLUSTER, NAME, uid)
    stored = await tap.stored_resources(cluster)
    kept = {LOGICAL_CLUSTER.group_resource, *_LAST}
    first = [resource for resource in stored if resource.group_resource not in kept]
    content = _whole(await _delete(tap, cluster, first, settled=_GARBAGE_COLLECTION, holder=holder))
    if content.resources:
        return content
    # Their own finalizers wait for content that is gone by now.
    settled = _GARBAGE_COLLECTION | {CLEANUP_FINALIZER, NAMESPACE_FINALIZER}
    last = [resource for resource in stored if resource.group_resource in _LAST]
    return _whole(await _delete(tap, cluster, last, settled=settled, holder=holder))


async def delete_instances(tap: Tap, cluster: Name, resource: GroupResource, *, crd: str, uid: str) -> Remaining:
    """Delete the objects of one custom resource. Nothing new may be able to come: its CRD is terminating."""
    return await tap.delete_stored(cluster, StoredResource(resource, custom=True, namespaced=None), holder=Holder(CRDS, crd, uid))


async def _delete(
    tap: Tap, cluster: Name, resources: list[StoredResource], namespace: str = "", *, settled: frozenset[str], holder: Holder
) -> Content:
    left: dict[GroupResource, int] = {}
    finalizers: Counter[str] = Counter()
    failures = []
    for resource in resources:
        try:
            remaining = await tap.delete_stored(cluster, resource, namespace, settled=settled, holder=holder)
        except StatusError as error:
            failures.append(error)
            continue
        if remaining.objects:
            left[resource.group_resource] = remaining.objects
        finalizers.update(remaining.finalizers)
    return Content(left, finalizers, failures)


def _whole(content: Content) -> Content:
    if content.failures:
        raise content.failures[0]
    return content
