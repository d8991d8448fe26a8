"""Whether a namespace can take new objects, the namespaces that every cluster has, and what namespaces give to objects in them.

`default`, `kube-system`, `kube-public` and `kube-node-lease` exist in every logical cluster without being stored: they are computed
from the cluster's own object, and stored only once a client changes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import NAMESPACES
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Origin, ServedResource
from kcp_py.registry.uid import derived_uid
from kcp_py.storage.contract import Compare, KeyValue, Storage
from kcp_py.storage.keys import ResourceKeys, resource_keys

DEFAULT_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""In the order of their keys."""

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
"""Those that cannot be deleted (upstream's NamespaceLifecycle admission)."""

_UID_SPACE: Final = uuid.UUID("6b637020-7079-5e61-8d65-737061636573")


def namespace_keys(root: str) -> ResourceKeys:
    """The keys of namespaces."""
    return resource_keys(root, "", "namespaces", namespaced=False)


def default_namespaces(cluster: str, uid: str, created_at: str) -> Mapping[str, bytes]:
    """The namespaces of a cluster that were not stored, by name. Their uids follow from the cluster's, so that they end with it."""
    return {name: _namespace(name, _default_uid(cluster, uid, name), created_at) for name in DEFAULT_NAMESPACES}


def _default_uid(cluster: str, uid: str, name: str) -> str:
    return derived_uid(_UID_SPACE, f"{cluster}/{uid}/{name}")


def namespace_origin(cluster: str, cluster_origin: Origin, name: str, item: KeyValue | None) -> Origin | None:
    """What the default objects of a namespace come with; None where the namespace does not exist or is being deleted.

    The revision is that of the namespace's creation. A default namespace exists since its cluster does, and keeps its uid when it is
    stored. One that was deleted and came again has another uid, and nothing stored tells the revision at which it came: the revision is
    then that of its last write, with which the objects count as changed.

    Args:
        cluster: the name of the logical cluster, which exists and is not being deleted.
        cluster_origin: what the cluster gives to its default objects.
        name: of the namespace.
        item: the stored namespace; None where none is stored.
    """
    by_default = name in DEFAULT_NAMESPACES
    uid = _default_uid(cluster, cluster_origin.uid, name) if by_default else ""
    if item is None:
        return cluster_origin._replace(uid=uid) if by_default else None
    try:
        metadata = orjson.loads(item.value)["metadata"]
        if metadata.get("deletionTimestamp"):
            return None
        found = Origin(metadata["uid"], metadata["creationTimestamp"], item.create_revision)
    except (KeyError, TypeError, ValueError, AttributeError):
        # Others have written it into the store.
        return None
    if not by_default:
        return found
    return found._replace(revision=cluster_origin.revision if found.uid == uid else item.mod_revision)


def _namespace(name: str, uid: str, created_at: str) -> bytes:
    return encode_stored(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": uid,
                "creationTimestamp": created_at,
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
    )


def lasts(cluster_state: ClusterState, namespace: str) -> bool:
    """Whether a namespace exists for as long as its cluster does, which is not being deleted."""
    return namespace in IMMORTAL and not cluster_state.terminating


async def namespace_guard(
    storage: Storage, resource: ServedResource, cluster_state: ClusterState, namespace: str, *, name: str
) -> Sequence[Compare]:
    """Check that a namespace exists and is not terminating (upstream's NamespaceLifecycle admission).

    Args:
        storage: the store.
        resource: of the new object.
        cluster_state: its cluster.
        namespace: the one to check.
        name: of the new object, for the refusal.

    Returns:
        What has to hold when the object is stored, so that no object outlives its namespace.

    Raises:
        StatusError: 404 for a missing namespace, 403 for a terminating one.
    """
    if lasts(cluster_state, namespace):
        return ()
    by_default = namespace in DEFAULT_NAMESPACES and not cluster_state.terminating
    key = namespace_keys(resource.keys.root).object_key(cluster_state.name, "", namespace)
    item = await storage.get(key)
    if item is None:
        if by_default:
            return (Compare(key, mod_revision=0),)
        raise errors.not_found(NAMESPACES.group_resource, namespace)
    if b'"deletionTimestamp":"' in item.value and orjson.loads(item.value)["metadata"].get("deletionTimestamp"):
        raise terminating(resource, namespace, name)
    return (Compare(key, mod_revision=item.mod_revision),)


def terminating(resource: ServedResource, namespace: str, name: str) -> errors.StatusError:
    """403 for new content in a namespace that is on its way out."""
    error = errors.forbidden(
        resource.group_resource, name or "Unknown", f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated", "field": "metadata.namespace"}
    error.details = {**(error.details or {}), "causes": [cause]}
    return error
