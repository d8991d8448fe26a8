"""`LocalClient`: the client of the same process. It calls the registry as the HTTP handlers do, without the HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from copy import copy
from functools import partial
from itertools import groupby
from typing import Any, Final, Self

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import (
    CreateOptions,
    DeleteOptions,
    FieldValidation,
    PatchOptions,
    Preconditions,
    UpdateOptions,
    parse_resource_version,
)
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.client.contract import FIELD_MANAGER, ApiResource, ObjectList, WatchEvent
from kcp_py.client.following import follow
from kcp_py.client.requests import Resolver, request_context, unsupported, write_request
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.registry.catalog.table import ResourceTable
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.apply import apply
from kcp_py.registry.rest.conform import check_metadata, conform
from kcp_py.registry.rest.create import create
from kcp_py.registry.rest.patch import MERGE_PATCH, patch, patch_types, read_patch
from kcp_py.registry.rest.storage import ReadRequest, RestStorage
from kcp_py.registry.rest.update import update
from kcp_py.registry.scope import ClusterScope
from kcp_py.registry.store import Access, Scan, delete, get, load, load_one, scan
from kcp_py.registry.store.access import Written, translate
from kcp_py.registry.store.read import from_storage
from kcp_py.registry.writerequest import FieldManager, Resolved
from kcp_py.request.user import LOOPBACK, UserInfo
from kcp_py.storage.contract import KeyValue, StorageError
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout

_CHUNK: Final = 500
"""Objects that a list reads at once."""
_ITEMS_PER_TURN: Final = 100
"""After so many decoded objects other tasks get their turn."""


class LocalClient:
    """A `Client` on the registry of this process."""

    def __init__(
        self,
        access: Access,
        *,
        tables: ResourceTables,
        wildcard: WildcardTables,
        clusters: LogicalClusters,
        fanout: Fanout,
        user: UserInfo = LOOPBACK,
    ) -> None:
        """Put the parts of the registry together.

        Args:
            access: the store.
            tables: what each cluster serves.
            wildcard: what all of them serve.
            clusters: which there are.
            fanout: the store's changes.
            user: who makes the requests, as admission sees it.
        """
        self._user = user
        self._access = access
        self._tables = tables
        self._wildcard = wildcard
        self._clusters = clusters
        self._fanout = fanout
        self._resolver = Resolver(tables, clusters)
        self._builtin: dict[GroupResource, ServedResource] = {}
        self._builtin_kinds: dict[GroupVersionKind, ServedResource] = {}
        for resource in tables.builtins:
            self._builtin.setdefault(resource.group_resource, resource)
            self._builtin_kinds.setdefault(resource.group_version_kind, resource)

    def acting_as(self, user: UserInfo) -> Self:
        """The same client for another user."""
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
        scope, served = await self._resolver.resolve(cluster, resource)
        if subresource:
            raise unsupported(resource)
        try:
            if isinstance(rest := served.resource.rest, RestStorage):
                obj = await rest.get(self._reading("get", Resolved(scope, served, namespace, name)))
                shown = _dressed(obj, served.resource, scope.name)
            else:
                item = await get(self._access, scope, served, namespace, name)
                if metadata_only:
                    # The metadata is the same in every version: nothing is converted.
                    stored = orjson.loads(item.value)
                    shown = served.resource.renderer.dress({"metadata": stored["metadata"]}, item.mod_revision, scope.name)
                else:
                    shown = await _decoded(served, item, scope.name)
        except StorageError as error:
            raise translate(error) from error
        return partial_object_metadata(shown) if metadata_only else shown

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
        if label_selector or field_selector or limit or continue_token or resource_version or resource_version_match or metadata_only:
            raise unsupported(resource)
        wildcard = isinstance(cluster, Wildcard)
        try:
            if isinstance(cluster, Wildcard):
                scope = None
                served = await self._wildcard.find(*resource)
                if served is None:
                    raise errors.not_found(resource.group_resource, "")
            else:
                scope, served = await self._resolver.resolve(cluster, resource)
                if isinstance(rest := served.resource.rest, RestStorage):
                    objects = await rest.list(self._reading("list", Resolved(scope, served, namespace, "")))
                    return ObjectList([_dressed(obj, served.resource, scope.name) for obj in objects], str(self._fanout.revision))
            found: list[dict[str, Any]] = []
            keys = served.resource.keys
            what = Scan(scope, namespace, limit=_CHUNK)
            serving = self._wildcard.serving(served, scope_of=self._clusters.scope, scopes=self._clusters.scopes)
            while True:
                page = await scan(self._access, served, what, clusters=serving)
                for owner, together in groupby(page.items, lambda item: keys.locate(item.key).cluster):
                    mine = await self._served_in(owner, served, wildcard=wildcard)
                    if mine is None:
                        continue
                    before = len(found)
                    items = list(together)
                    try:
                        objects = await load(mine, items)
                    except StatusError:
                        if not wildcard:
                            raise
                        continue  # no cluster makes a list of all clusters fail
                    for item, obj in zip(items, objects, strict=True):
                        found.append(mine.resource.renderer.dress(obj, item.mod_revision, owner, wildcard=wildcard))
                    if before // _ITEMS_PER_TURN != len(found) // _ITEMS_PER_TURN:
                        await asyncio.sleep(0)
                if not page.more:
                    return ObjectList(found, str(page.revision))
                what = what._replace(start=page.items[-1].key + "\x00", revision=page.revision)
        except StorageError as error:
            raise translate(error) from error

    def _reading(self, verb: str, target: Resolved) -> ReadRequest:
        """A read of the client's user."""
        return ReadRequest(request_context(self._user, verb, target), target)

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
        if name or subresource:
            raise unsupported(resource)
        options = CreateOptions(dry_run, field_manager, field_validation)

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = Resolved(scope, served, (obj.get("metadata") or {}).get("namespace", ""), "")
            request = write_request(self._access, self._user, "create", target=target, options=options, field_manager=field_manager)
            return await create(self._access, request, await _conforming(obj, served.resource, options, request.warnings))

        return await self._write(cluster, resource, attempt)

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
        # Of an update of the status all but the status is taken from the stored object, and some are large.
        given = {key: obj[key] for key in ("metadata", "status") if key in obj} if subresource == "status" else obj

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = _target(scope, served, metadata.get("namespace", ""), metadata["name"], "update", subresource=subresource)
            request = write_request(self._access, self._user, "update", target=target, options=options, field_manager=field_manager)
            return await update(self._access, request, partial(_conforming, given, served.resource, options, request.warnings))

        return await self._write(cluster, resource, attempt)

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

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            if patch_type not in patch_types(served.resource):
                raise errors.unsupported_media_type(patch_types(served.resource))
            target = _target(scope, served, namespace, name, "patch", subresource=subresource)
            request = write_request(self._access, self._user, "patch", target=target, options=options, field_manager=field_manager)
            return await patch(self._access, request, change)

        return await self._write(cluster, resource, attempt)

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
        metadata, body = configuration["metadata"], orjson.dumps(configuration)
        options = PatchOptions(dry_run, field_manager, field_validation, force)

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = _target(scope, served, metadata.get("namespace", ""), metadata["name"], "patch", subresource=subresource)
            request = write_request(self._access, self._user, "patch", target=target, options=options)
            manager = FieldManager(field_manager, self._access.now(), applied=True)
            return await apply(self._access, request._replace(manager=manager), body)

        return await self._write(cluster, resource, attempt)

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

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = Resolved(scope, served, namespace, name)
            return await delete(self._access, write_request(self._access, self._user, "delete", target=target, options=options))

        await self._resolver.carry_out(cluster, resource, attempt)

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
        del cluster, namespace, label_selector, field_selector, propagation, grace, dry_run
        raise unsupported(resource)

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
        if namespace or label_selector or field_selector or bookmarks or timeout_seconds or metadata_only:
            raise unsupported(resource)
        wildcard = isinstance(cluster, Wildcard)
        after = parse_resource_version(resource_version)
        begun: Callable[[], Awaitable[None]] | None = None
        if isinstance(cluster, Wildcard):
            served = await self._wildcard.find(*resource)
            if served is None:
                raise errors.not_found(resource.group_resource, "")
        else:
            scope, served = await self._resolver.resolve(cluster, resource)
            if 0 < after < scope.created_revision:
                raise errors.expired(f"too old resource version: {after} ({scope.created_revision})")
            after = max(after, scope.created_revision - 1)
            begun = partial(self._clusters.confirm, scope)
        events = follow(self._fanout, served.resource.keys.prefix, cluster="" if wildcard else str(cluster), after=after, begun=begun)
        try:
            async for event in events:
                owner = Name(event.route.cluster)
                # The definition may be gone with its last objects: their end is still told, in the form of the others.
                mine = await self._served_in(owner, served, wildcard=wildcard) or (served if event.value is None else None)
                if mine is None:
                    continue
                if event.value is not None:
                    item = KeyValue("", event.value, event.resource_version, event.create_revision)
                    kind = "ADDED" if event.previous is None else "MODIFIED"
                elif event.previous is not None:
                    item = KeyValue("", event.previous.value, event.resource_version, event.create_revision)
                    kind = "DELETED"
                else:
                    continue
                try:
                    obj = await _decoded(mine, item, owner, wildcard=wildcard)
                except StatusError:
                    if not wildcard:
                        raise
                    continue
                yield WatchEvent(kind, obj)
        finally:
            await events.aclose()

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

    async def _table(self, cluster: Name) -> ResourceTable:
        try:
            return await self._tables.get(cluster)
        except StorageError as error:
            raise translate(error) from error

    async def _served_in(self, cluster: Name, served: Served, *, wildcard: bool) -> Served | None:
        return await self._tables.served_in(cluster, served) if wildcard else served

    async def _write(
        self, cluster: Name, resource: GroupVersionResource, attempt: Callable[[ClusterScope, Served], Awaitable[Written]]
    ) -> dict[str, Any]:
        """Carry a write out, and show what it has made."""
        served, written = await self._resolver.carry_out(cluster, resource, attempt)
        obj = await from_storage(served.resource, orjson.loads(written.value))
        return served.resource.renderer.dress(obj, written.mod_revision, cluster)


async def _decoded(served: Served, item: KeyValue, cluster: Name, *, wildcard: bool = False) -> dict[str, Any]:
    obj = await load_one(served, item)
    return served.resource.renderer.dress(obj, item.mod_revision, cluster, wildcard=wildcard)


def _dressed(obj: dict[str, Any], resource: ServedResource, cluster: Name) -> dict[str, Any]:
    """A computed object as HTTP answers it."""
    return resource.renderer.dress({"apiVersion": resource.group_version, "kind": resource.kind, **obj}, 0, cluster)


def _target(scope: ClusterScope, served: Served, namespace: str, name: str, verb: str, *, subresource: str) -> Resolved:
    """What a write is about.

    Raises:
        StatusError: 404 for a subresource that is not served, 405 for one that does not have the verb.
    """
    if subresource:
        entry = served.resource.subresources.get(subresource)
        if entry is None:
            raise errors.unknown_path()
        if verb not in entry.verbs:
            raise errors.method_not_supported(served.resource.group_resource, verb)
    return Resolved(scope, served, namespace, name, subresource)


async def _conforming(obj: Mapping[str, Any], resource: ServedResource, options: CreateOptions, warnings: list[str]) -> dict[str, Any]:
    """A copy of a caller's object as the registry takes it: pruned, with defaults."""
    new: dict[str, Any] = orjson.loads(orjson.dumps({"apiVersion": resource.group_version, "kind": resource.kind, **obj}))
    check_metadata(new, resource)
    return await conform(new, resource, field_validation=options.field_validation, warnings=warnings)


def _api_resource(resource: ServedResource) -> ApiResource:
    return ApiResource(GroupVersionResource(resource.group, resource.version, resource.resource), resource.kind, resource.namespaced)
