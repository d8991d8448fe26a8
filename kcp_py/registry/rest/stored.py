"""`StoredObjects`: the `RestStorage` of everything that the store holds, built-in kinds and custom resources alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import CreateOptions, DeleteOptions, ListOptions
from kcp_py.registry.rest.apply import apply
from kcp_py.registry.rest.conform import conform
from kcp_py.registry.rest.create import check_namespace
from kcp_py.registry.rest.everywhere import find_everywhere
from kcp_py.registry.rest.listing import Listing, selectable
from kcp_py.registry.rest.patch import APPLY_PATCH, Patch, accepted, patch
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import ReadRequest, RestStorage, StoredObject, WrittenObject
from kcp_py.registry.rest.update import update
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.store import Access, create, delete
from kcp_py.registry.store.delete import propagation_of
from kcp_py.registry.store.read import find
from kcp_py.registry.writerequest import WriteRequest


class StoredObjects(RestStorage):
    """Serves stored objects of one cluster or of all, and the views of them that `/status`, `/finalize` and `/scale` are."""

    def __init__(self, registry: Registry) -> None:
        """A storage for every stored resource."""
        self._registry: Final = registry
        self._access: Final = registry.access

    async def get(self, request: ReadRequest) -> StoredObject:
        """One object; over all clusters the one of the named cluster, or the only one.

        A resourceVersion asks for a state at least that new. Every read is the latest, so only one from the future fails.

        Raises:
            StatusError: 404; 504 for a revision that has not happened; over all clusters 409 where several have an object of the name.
            StaleStateError: the cluster changed meanwhile.
        """
        target, registry = request.target, self._registry
        if request.options.resource_version:
            await self._check_revision(request.options.resource_version)
        cluster_state = target.only
        if wildcard := cluster_state is None:
            target = await find_everywhere(registry, target, request.in_cluster)
            cluster_state = target.cluster_state
        served = target.served
        item = await find(self._access, cluster_state, served, target.namespace, target.name)
        if item is None:
            raise errors.not_found(served.resource.group_resource, target.name)
        # Nearly always the state is the one that is at hand, and a call is spared.
        if registry.clusters.peek(cluster_state.name) is not cluster_state:
            await registry.clusters.confirm(cluster_state)
        return StoredObject(target, item, wildcard)

    async def _check_revision(self, text: str) -> None:
        if text == "0":
            return
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a number')
        asked = int(text)
        if asked > self._registry.fanout.revision:
            current = await self._access.storage.revision()
            if asked > current:
                raise errors.too_large_resource_version(asked, current)

    async def list(self, request: ReadRequest) -> Listing:
        """A list that has yet to be read.

        Raises:
            StatusError: 400, 410.
        """
        target = await selectable(self._registry, request.target, request.options)
        return Listing(self._registry, target, request.options)

    def watch(self, request: ReadRequest) -> StoredWatch:
        """A watch that has yet to be started."""
        return StoredWatch(self._registry, request.target, request.options)

    async def create(self, request: WriteRequest, obj: dict[str, Any]) -> WrittenObject:
        """Store a new object, which is changed in place.

        Raises:
            StatusError: 400 for a body that is not of the kind and for the namespace of another URL, 409, 422 and whatever admission says.
            StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
        """
        target, options = request.target, request.options
        assert isinstance(options, CreateOptions), "a create has its own options"
        validation, warnings = options.field_validation, request.context.warnings
        await conform(obj, target.served.resource, request.decoding, field_validation=validation, warnings=warnings)
        check_namespace(obj, target)
        return WrittenObject(request.target, await create(self._access, request, obj))

    async def update(self, request: WriteRequest, obj: dict[str, Any]) -> WrittenObject:
        """Replace an object, its status or its Scale; kinds that allow it are created.

        Raises:
            StatusError: see `registry.rest.update.update`.
        """
        return WrittenObject(request.target, await update(self._access, request, obj))

    async def patch(self, request: WriteRequest, change: Patch) -> WrittenObject:
        """Change an object, its status or its Scale against its latest state, or apply a configuration.

        Raises:
            StatusError: 415; see `registry.rest.patch.patch` and `registry.rest.apply.apply`.
        """
        request = accepted(request, change)
        if change.type == APPLY_PATCH:
            return WrittenObject(request.target, await apply(self._access, request, change.body))
        return WrittenObject(request.target, await patch(self._access, request, change))

    async def delete(self, request: WriteRequest) -> WrittenObject:
        """Delete an object, or mark it for deletion.

        Raises:
            StatusError: see `registry.store.delete.delete`.
        """
        resource, name = request.target.resource, request.target.name
        if refusal := resource.strategy.check_delete_of(name):
            raise errors.forbidden(resource.group_resource, name, refusal)
        _warn(request)
        return WrittenObject(request.target, await delete(self._access, request))

    def delete_collection(self, request: WriteRequest, options: ListOptions) -> DeletedObjects:
        """Delete every object that the options select, one after the other.

        Raises:
            StatusError: 400, 410.
        """
        _warn(request)
        return DeletedObjects(self._access, Listing(self._registry, request.target, options), request)


class DeletedObjects:
    """Deletes the objects of a list while it is iterated over. Deleted objects stay deleted where the iteration ends early."""

    def __init__(self, access: Access, listing: Listing, request: WriteRequest) -> None:
        self._access = access
        self._listing = listing
        self._request = request

    @property
    def revision(self) -> int:
        """Of the list, once it was read."""
        return self._listing.revision

    async def __aiter__(self) -> AsyncIterator[WrittenObject]:
        """Each object as its deletion has left it. Objects that are gone meanwhile are left out.

        Raises:
            StatusError: an object cannot be deleted.
        """
        request = self._request
        keys = request.target.resource.keys
        turns = TimeSlice()
        async for found in self._listing.portions(answered=False):
            for one in found:
                key = keys.parse(one.item.key)
                target = request.target._replace(namespace=key.namespace, name=key.name)
                try:
                    written = await delete(self._access, request._replace(target=target))
                except StatusError as error:
                    if error.code == 404:
                        continue
                    raise
                yield WrittenObject(target, written)
                await turns.yield_if_due()
            del found


def _warn(request: WriteRequest) -> None:
    """Warn where the kind's default propagation is not what a client may expect."""
    strategy = request.target.resource.strategy
    assert isinstance(request.options, DeleteOptions), "a deletion has its own options"
    if not propagation_of(request.options, strategy) and (warning := strategy.deletion_warning):
        request.warnings.append(warning)
