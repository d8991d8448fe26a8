"""`LocalClient`: the client of the same process. Each method calls the verbs that the HTTP handlers call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import (
    CreateOptions,
    DeleteOptions,
    FieldValidation,
    PatchOptions,
    Preconditions,
    UpdateOptions,
    decode_list_options,
)
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.client.contract import FIELD_MANAGER, ApiResource, ObjectList, WatchEvent
from kcp_py.client.localreads import changes_of, decoded, read_list
from kcp_py.client.requests import Resolver, request_context, write_request
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.registry.catalog.table import ResourceTable
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.computed import ComputedObjects, ComputedWatch, PatchedObject
from kcp_py.registry.rest.kinds import body_of
from kcp_py.registry.rest.listing import Listing
from kcp_py.registry.rest.patch import APPLY_PATCH, MERGE_PATCH, Patch, patch_types, read_patch
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import Object, ReadRequest, StoredObject
from kcp_py.registry.rest.stored import StoredObjects
from kcp_py.registry.rest.verbs import Verbs
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.store.access import translate
from kcp_py.registry.writerequest import Decoding, Resolved, WriteRequest
from kcp_py.request.user import LOOPBACK, UserInfo
from kcp_py.storage.contract import StorageError

T = TypeVar("T")
Storage = StoredObjects | ComputedObjects


class LocalClient:
    """A `Client` on the registry of this process."""

    def __init__(self, registry: Registry, *, user: UserInfo = LOOPBACK) -> None:
        """Call the verbs of a registry.

        Args:
            registry: the store, the clusters and what they serve.
            user: who makes the requests, as admission sees it.
        """
        self._user = user
        self._registry = registry
        self._verbs = Verbs(registry)
        self._resolver = Resolver(registry.tables, registry.clusters)
        self._builtin: dict[GroupResource, ServedResource] = {}
        self._builtin_kinds: dict[GroupVersionKind, ServedResource] = {}
        for resource in registry.tables.builtins:
            self._builtin.setdefault(resource.group_resource, resource)
            self._builtin_kinds.setdefault(resource.group_version_kind, resource)

    def acting_as(self, user: UserInfo) -> Self:
        """This client as another user."""
        other = copy(self)
        other._user = user  # noqa: SLF001 - a copy of this object
        return other

    async def get(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        metadata_only: bool = False,
    ) -> dict[str, Any]:
        """`Client.get`."""

        async def call(storage: Storage, target: Resolved) -> Object:
            found = await storage.get(ReadRequest(request_context(self._user, "get", target), target))
            if metadata_only:
                return partial_object_metadata(found.metadata() if isinstance(found, StoredObject) else found)
            return await decoded(found)

        return await self._call("get", cluster, resource, namespace, name, subresource=subresource, call=call)

    async def list(
        self,
        cluster: ClusterSelection,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """`Client.list`."""
        options = decode_list_options(
            _query(
                labelSelector=label_selector,
                fieldSelector=field_selector,
                limit=limit or "",
                resourceVersion=resource_version,
                resourceVersionMatch=resource_version_match,
                **{"continue": continue_token},
            )
        )

        async def call(storage: Storage, target: Resolved) -> ObjectList:
            listed = await storage.list(ReadRequest(request_context(self._user, "list", target), target, options))
            if isinstance(listed, Listing):
                return await read_list(listed, metadata_only=metadata_only)
            items = [partial_object_metadata(obj) for obj in listed.items] if metadata_only else listed.items
            return ObjectList(items, str(listed.revision))

        return await self._call("list", cluster, resource, namespace, call=call)

    async def create(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        obj: Mapping[str, Any],
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """`Client.create`."""
        options = CreateOptions(dry_run, field_manager, field_validation)

        async def call(storage: Storage, target: Resolved) -> Object:
            request = self._write("create", target, options)
            return await decoded(await storage.create(request, await body_of(obj, target)))

        namespace = (obj.get("metadata") or {}).get("namespace", "")
        return await self._call("create", cluster, resource, namespace, name, subresource=subresource, call=call)

    async def update(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """`Client.update`."""
        metadata = obj["metadata"]
        options = UpdateOptions(dry_run, field_manager, field_validation)

        async def call(storage: Storage, target: Resolved) -> Object:
            read = partial(body_of, obj, target)
            request = self._write("update", target, options)._replace(decoding=Decoding(again=read))
            return await decoded(await storage.update(request, await read()))

        name, namespace = metadata["name"], metadata.get("namespace", "")
        return await self._call("update", cluster, resource, namespace, name, subresource=subresource, call=call)

    async def patch(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        document: Any,
        patch_type: str = MERGE_PATCH,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """`Client.patch`."""
        options = PatchOptions(dry_run, field_manager, field_validation)
        change = await read_patch(orjson.dumps(document), patch_type, strict=field_validation != "Ignore")
        return await self._patch(cluster, resource, namespace, name, subresource=subresource, change=change, options=options)

    async def apply(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        configuration: Mapping[str, Any],
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """`Client.apply`."""
        metadata = configuration["metadata"]
        change = await read_patch(orjson.dumps(configuration), APPLY_PATCH, strict=field_validation != "Ignore")
        options = PatchOptions(dry_run, field_manager, field_validation, force)
        name, namespace = metadata["name"], metadata.get("namespace", "")
        return await self._patch(cluster, resource, namespace, name, subresource=subresource, change=change, options=options)

    async def _patch(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        subresource: str,
        change: Patch,
        options: PatchOptions,
    ) -> Object:
        async def call(storage: Storage, target: Resolved) -> Object:
            if change.type not in patch_types(target):
                raise errors.unsupported_media_type(patch_types(target))
            request = self._write("patch", target, options)
            if change.type == APPLY_PATCH and request.manager is not None:
                request = request._replace(manager=request.manager._replace(applied=True))
            written = await storage.patch(request, change)
            return written.obj if isinstance(written, PatchedObject) else await written.decoded()

        return await self._call("patch", cluster, resource, namespace, name, subresource=subresource, call=call)

    async def delete(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """`Client.delete`."""
        options = DeleteOptions(
            dry_run=dry_run,
            grace_period_seconds=grace,
            preconditions=Preconditions(uid, resource_version),
            propagation_policy=propagation or None,
        )

        async def call(storage: Storage, target: Resolved) -> None:
            await storage.delete(write_request(self._registry.access, self._user, "delete", target=target, options=options))

        await self._call("delete", cluster, resource, namespace, name, call=call)

    async def delete_collection(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """`Client.delete_collection`."""
        options = DeleteOptions(dry_run=dry_run, grace_period_seconds=grace, propagation_policy=propagation or None)
        selected = decode_list_options(_query(labelSelector=label_selector, fieldSelector=field_selector))

        async def call(storage: Storage, target: Resolved) -> None:
            request = write_request(self._registry.access, self._user, "delete", target=target, options=options)
            async for _ in storage.delete_collection(request, selected):
                pass

        await self._call("deletecollection", cluster, resource, namespace, call=call)

    async def watch(
        self,
        cluster: ClusterSelection,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
        timeout_seconds: int | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """`Client.watch`."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            timeoutSeconds=timeout_seconds or "",
            allowWatchBookmarks="true" if bookmarks else "",
        )
        options = decode_list_options(query)

        async def start(storage: Storage, target: Resolved) -> StoredWatch | ComputedWatch:
            source = storage.watch(ReadRequest(request_context(self._user, "watch", target), target, options))
            try:
                await source.start()
            except BaseException:
                await source.aclose()
                raise
            return source

        source = await self._call("watch", cluster, resource, namespace, call=start)
        seconds = float(timeout_seconds) if timeout_seconds else None
        try:
            shown = source.changes(seconds) if isinstance(source, ComputedWatch) else changes_of(source, self._registry, seconds)
            async with aclosing(shown) as changes:
                async for kind, obj in changes:
                    yield WatchEvent(kind, partial_object_metadata(obj) if metadata_only and kind != "BOOKMARK" else obj)
        except StorageError as error:
            raise translate(error) from error
        finally:
            await source.aclose()

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> ApiResource | None:
        """`Client.find_kind`."""
        group, _, version = api_version.rpartition("/")
        wanted = GroupVersionKind(group, version, kind)
        resource = self._builtin_kinds.get(wanted)
        if resource is None:
            served = (await self._table(cluster)).find_own_kind(wanted)
            if served is None:
                return None
            resource = served.resource
        return _api_resource(resource)

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ApiResource | None:
        """`Client.find_resource`, in the version in which a custom resource is stored if that is served."""
        builtin = self._builtin.get(resource)
        if builtin is not None:
            return _api_resource(builtin)
        served = (await self._table(cluster)).find_own(resource)
        return None if served is None else _api_resource(served.resource)

    def _write(self, verb: str, target: Resolved, options: CreateOptions) -> WriteRequest:
        manager = options.field_manager
        return write_request(self._registry.access, self._user, verb, target=target, options=options, field_manager=manager)

    async def _table(self, cluster: Name) -> ResourceTable:
        try:
            return await self._registry.tables.get(cluster)
        except StorageError as error:
            raise translate(error) from error

    async def _call(
        self,
        verb: str,
        cluster: ClusterSelection,
        resource: GroupVersionResource,
        namespace: str,
        name: str = "",
        *,
        subresource: str = "",
        call: Callable[[Storage, Resolved], Awaitable[T]],
    ) -> T:
        """Call a verb of what serves a resource, again where the cluster or the definition has changed meanwhile.

        Raises:
            StatusError: 404 for an unserved resource, 405 for a verb that the subresource does not have, and the errors of the verb.
        """

        async def attempt(cluster_state: ClusterState | None, served: Served) -> T:
            if subresource:
                entry = served.resource.subresources.get(subresource)
                if entry is None:
                    raise errors.unknown_path()
                if verb not in entry.verbs:
                    raise errors.method_not_supported(served.resource.group_resource, verb)
            target = Resolved(cluster_state, served, namespace, name, subresource)
            return await call(self._verbs.of(target), target)

        if not isinstance(cluster, Wildcard):
            return (await self._resolver.carry_out(cluster, resource, attempt))[1]
        try:
            found = await self._registry.wildcard.find(*resource)
            if found is None:
                raise errors.unserved()
            return await attempt(None, found)
        except StorageError as error:
            raise translate(error) from error


def _query(**parameters: Any) -> dict[str, list[str]]:
    """Options as the query of a URL has them."""
    return {name: [str(value)] for name, value in parameters.items() if value != ""}


def _api_resource(resource: ServedResource) -> ApiResource:
    return ApiResource(resource.key, resource.kind, resource.namespaced)
