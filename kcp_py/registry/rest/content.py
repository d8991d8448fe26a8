"""`StoredContent`: deletions by controllers that no verb of a served resource can make.

A verb serves a resource that its cluster has, and acts on objects that can be decoded. The objects of a namespace, a CRD or a cluster have
to go with it where neither is true: a CRD may have no served version or no accepted names, and objects may be damaged or violate the
present schema. Such a deletion also has conditions that a verb does not have. Nothing is deleted once the holder is gone, and finalizers
that go with the holder are not waited for. The answer is a count of the objects that remain. Otherwise a deletion is like that of a verb:
admission sees it, and `Access.transact` stores it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

import orjson

from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.registry import Clusters
from kcp_py.registry.store.access import Access, translate
from kcp_py.registry.store.collection import CollectionDeletion, Remaining, holder_gone, remove_finalizer
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.storage.contract import Compare, StorageError
from kcp_py.storage.keys import ResourceKeys, resource_of


class StoredCollection(NamedTuple):
    """The objects of a resource in a cluster or in one of its namespaces, whether or not the cluster serves it."""

    cluster: Name
    keys: ResourceKeys
    namespace: str = ""
    """Empty for all."""
    builtin: Served | None = None
    """The resource; None for one of a CRD."""
    find: Callable[[], Awaitable[Served | None]] | None = None
    """Finds the resource of a CRD as the cluster serves it; None for other resources."""


class StoredHolder(NamedTuple):
    """The object with which a collection is deleted."""

    key: str
    """Its key in the store."""
    uid: str


class StoredContent:
    """Deletes collections, and removes the finalizers of the server."""

    def __init__(self, access: Access, clusters: Clusters) -> None:
        """Delete from a store. Deletions that run at the same time share the operations that it may make at once."""
        self._access = access
        self._clusters = clusters
        self._deletion = CollectionDeletion(access)

    async def delete(
        self,
        collection: StoredCollection,
        *,
        settled: Collection[str],
        holder: StoredHolder | None,
        request_for: Callable[[Resolved], WriteRequest],
    ) -> Remaining:
        """Delete the objects of a collection. Those with finalizers are marked and left.

        Args:
            collection: the objects.
            settled: finalizers that are not waited for.
            holder: nothing is deleted once it is gone, even if another object has its name.
            request_for: the deletion of a target as admission sees it. It is used where a plugin asks for deletions of the resource and the
                resource is served, so that its objects can be shown to plugins.

        Returns:
            What waits for finalizers.

        Raises:
            StatusError: 409 where the holder is gone; the first refusal by admission, when all other objects are gone; the store cannot be
                read or written, and deleted objects stay deleted.
        """
        cluster, keys, namespace, builtin, find = collection
        try:
            guard = await self._life_of(holder) if holder is not None else ()
            request = None
            if self._access.admission.sees("DELETE", cluster, resource_of(keys.prefix, keys.root)):
                served = await find() if find is not None else builtin
                if served is not None:
                    cluster_state = await self._clusters.state(cluster) or self._clusters.uncreated(cluster)
                    request = request_for(Resolved(cluster_state, served, namespace, ""))
            return await self._deletion.run(
                keys,
                keys.namespace_prefix(cluster, namespace) if namespace else keys.cluster_prefix(cluster),
                builtin.resource.strategy if builtin is not None else Strategy(),
                cluster=cluster,
                settled=settled,
                served=find,
                guard=guard,
                request=request,
            )
        except StorageError as error:
            raise translate(error) from error

    async def remove_finalizer(self, request: WriteRequest, finalizer: str, *, uid: str) -> None:
        """Remove a finalizer of the server from an object that is being deleted, and with the last one the object.

        No update could do that: the object need not be valid, since damaged objects can be deleted. A missing object is not an error.

        Args:
            request: the update of the object as admission sees it.
            finalizer: in the metadata, or in the spec of a namespace.
            uid: of the object that is meant; another one of its name is left alone.

        Raises:
            StatusError: a plugin refuses the update.
            StorageError: the store cannot be read or written.
            StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
        """
        target = request.target
        resource = target.resource
        item = await self._access.storage.get(resource.keys.object_key(target.cluster_state.name, target.namespace, target.name))
        await remove_finalizer(self._access, resource.keys, item, resource.strategy, finalizer=finalizer, uid=uid, request=request)

    async def _life_of(self, holder: StoredHolder) -> Sequence[Compare]:
        """The conditions that hold as long as a holder exists.

        Raises:
            StatusError: 409 where it is gone.
        """
        item = await self._access.storage.get(holder.key)
        if item is None or orjson.loads(item.value)["metadata"]["uid"] != holder.uid:
            raise holder_gone(holder.key)
        return (Compare(holder.key, create_revision=item.create_revision),)
