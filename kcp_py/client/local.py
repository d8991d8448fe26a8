"""`LocalClient`: the client of the same process. Each method calls the verbs that the HTTP handlers call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import orjson

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
from kcp_py.client.contract import FIELD_MANAGER, ApiResource, KindSchema, ObjectList, WatchEvent
from kcp_py.client.localreads import decoded, read_list, read_watch
from kcp_py.client.requests import RequestObserver, Requests, Storage
from kcp_py.client.views import ClusterViews
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.computedwatch import ComputedWatch
from kcp_py.registry.rest.kinds import body_of
from kcp_py.registry.rest.patch import APPLY_PATCH, MERGE_PATCH, Patch, read_patch
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.storage import Object
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.store.access import translate
from kcp_py.registry.writerequest import Decoding, Resolved
from kcp_py.request.user import LOOPBACK, UserInfo
from kcp_py.storage.contract import StorageError


class LocalClient(ClusterViews):
    """A `Client` on the registry of this process."""

    def __init__(self, registry: Registry, *, user: UserInfo = LOOPBACK, observer: RequestObserver | None = None) -> None:
        """Call the verbs of a registry.

        Args:
            registry: the store, the clusters and what they serve.
            user: who makes the requests, as admission sees it.
            observer: sees each request.
        """
        self._registry = registry
        self._user = user
        self._observer = observer
        self._requests = Requests(registry, user, observer)

    def acting_as(self, user: UserInfo) -> Self:
        """This client as another user."""
        return type(self)(self._registry, user=user, observer=self._observer)

    def through(self, part: str, *, applied: bool = False) -> Self:
        """This client for writes of whole objects that change what a subresource shows of them.

        Args:
            part: the subresource, which is that of the owners of the changed fields.
            applied: whether the objects have their owners already, as server-side apply makes them.
        """
        client = type(self)(self._registry, user=self._user, observer=self._observer)
        client._requests = Requests(self._registry, self._user, self._observer, part=part, applied=applied)  # noqa: SLF001 - its own class
        return client

    def unobserved(self) -> Self:
        """This client without its observer."""
        return type(self)(self._registry, user=self._user)

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
            found = await storage.get(self._requests.read("get", target))
            return await decoded(found, metadata_only=metadata_only)

        return await self._requests.call("get", cluster, resource, namespace, name, subresource=subresource, call=call)

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
            listed = await storage.list(self._requests.read("list", target, options))
            return await read_list(listed, metadata_only=metadata_only)

        return await self._requests.call("list", cluster, resource, namespace, call=call)

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
            return await decoded(await storage.create(self._requests.write("create", target, options), await body_of(obj, target)))

        namespace = (obj.get("metadata") or {}).get("namespace", "")
        return await self._requests.call("create", cluster, resource, namespace, name, subresource=subresource, call=call)

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
            return await decoded(await storage.update(self._requests.write("update", target, options, Decoding(again=read)), await read()))

        name, namespace = metadata["name"], metadata.get("namespace", "")
        return await self._requests.call("update", cluster, resource, namespace, name, subresource=subresource, call=call)

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
            return await decoded(await storage.patch(self._requests.write("patch", target, options), change))

        return await self._requests.call("patch", cluster, resource, namespace, name, subresource=subresource, call=call)

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
            await storage.delete(self._requests.write("delete", target, options))

        await self._requests.call("delete", cluster, resource, namespace, name, call=call)

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
            async for _ in storage.delete_collection(self._requests.write("delete", target, options), selected):
                pass

        await self._requests.call("deletecollection", cluster, resource, namespace, call=call)

    def watch(
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

        ended: list[Callable[[], None]] = []

        async def start() -> StoredWatch | ComputedWatch:
            options = decode_list_options(query)

            async def call(storage: Storage, target: Resolved) -> StoredWatch | ComputedWatch:
                source = storage.watch(self._requests.read("watch", target, options))
                try:
                    await source.start()
                except BaseException:
                    await source.aclose()
                    raise
                ended.append(self._requests.watching(target, source.watcher.end))
                return source

            return await self._requests.call("watch", cluster, resource, namespace, call=call)

        seconds = float(timeout_seconds) if timeout_seconds else None
        return read_watch(start, self._registry, seconds, metadata_only=metadata_only, ended=ended)

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> ApiResource | None:
        """`Client.find_kind`."""
        group, _, version = api_version.rpartition("/")
        return await _found(self._registry.tables.find_kind(cluster, GroupVersionKind(group, version, kind)))

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ApiResource | None:
        """`Client.find_resource`, in the version in which a custom resource is stored if that is served."""
        return await _found(self._registry.tables.find_resource(cluster, resource))

    async def resources(self, cluster: Name) -> Sequence[ApiResource]:
        """`Client.resources`."""
        try:
            table = await self._registry.tables.get(cluster)
        except StorageError as error:
            raise translate(error) from error
        return [_described(resource) for resource in table.resources() if resource.discoverable]

    async def schema(self, cluster: Name, kind: GroupVersionKind) -> KindSchema | None:
        """`Client.schema`."""
        try:
            found = await self._registry.tables.find_kind(cluster, kind)
        except StorageError as error:
            raise translate(error) from error
        if found is None:
            return None
        from kcp_py.registry.openapi import published_schema  # noqa: PLC0415 - few callers need it

        return KindSchema(*published_schema(found))


def _query(**parameters: Any) -> dict[str, list[str]]:
    """Options as the query of a URL has them."""
    return {name: [str(value)] for name, value in parameters.items() if value != ""}


async def _found(search: Awaitable[ServedResource | None]) -> ApiResource | None:
    """What a search in the tables of resources finds.

    Raises:
        StatusError: the store cannot be read.
    """
    try:
        found = await search
    except StorageError as error:
        raise translate(error) from error
    return None if found is None else _described(found)


def _described(resource: ServedResource) -> ApiResource:
    return ApiResource(resource.key, resource.kind, resource.namespaced, resource.singular, tuple(resource.short_names))
