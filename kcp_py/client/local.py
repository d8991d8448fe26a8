"""`LocalClient`: the client of the same process. It calls the registry as the HTTP handlers do, without the HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import groupby
from typing import Any, Final, Self, TypeVar

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import (
    CreateOptions,
    DeleteOptions,
    PatchOptions,
    Preconditions,
    UpdateOptions,
    parse_resource_version,
)
from kcp_py.client.contract import (
    Change,
    Concerned,
    Holder,
    KnownKind,
    ObjectChange,
    ObjectList,
    ObjectName,
    StoredResource,
    WatchEvent,
)
from kcp_py.client.following import follow, scan_changes
from kcp_py.client.observation import observe, stored_objects
from kcp_py.logicalcluster import ClusterSelection, Name, Wildcard
from kcp_py.registry.catalog.compilation import HeldNames
from kcp_py.registry.catalog.tables import ResourceTable, ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardIndex
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.apply import apply
from kcp_py.registry.rest.conform import check_metadata, conform
from kcp_py.registry.rest.create import create
from kcp_py.registry.rest.patch import MERGE_PATCH, patch, patch_types, read_patch
from kcp_py.registry.rest.storage import ReadRequest, RestStorage
from kcp_py.registry.rest.update import update
from kcp_py.registry.scope import ClusterScope, StaleScopeError
from kcp_py.registry.store import Access, Scan, delete, get, load, load_one, scan
from kcp_py.registry.store.access import GUARD_ATTEMPTS, Written, translate
from kcp_py.registry.store.collection import CollectionDeletion, Remaining, holder_gone, remove_finalizer
from kcp_py.registry.store.read import from_storage
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.writerequest import FieldManager, Resolved, WriteOptions, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import resource_request
from kcp_py.request.user import LOOPBACK, UserInfo
from kcp_py.storage.contract import Compare, KeyValue, StorageError
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, resource_keys
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Feed

DEFINITIONS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")

_MANAGER: Final = "kcp-py"
"""What the program itself sets is owned by this manager."""
_CHUNK: Final = 500
"""Objects that a list reads at once."""
_ITEMS_PER_TURN: Final = 100
"""After so many decoded objects other tasks get their turn."""

T = TypeVar("T")


class LocalClient:
    """A `Client` on the registry of this process."""

    def __init__(
        self,
        access: Access,
        *,
        tables: ResourceTables,
        wildcard: WildcardIndex,
        clusters: LogicalClusters,
        feed: Feed,
        user: UserInfo = LOOPBACK,
    ) -> None:
        """Put the parts of the registry together.

        Args:
            access: the store.
            tables: what each cluster serves.
            wildcard: what all of them serve.
            clusters: which there are.
            feed: the store's changes.
            user: who writes, as admission sees it.
        """
        self._user = user
        self._access = access
        self._tables = tables
        self._wildcard = wildcard
        self._clusters = clusters
        self._feed = feed
        self._deletion = CollectionDeletion(access)
        definitions = tables.builtin(*DEFINITIONS)
        assert definitions is not None, "CustomResourceDefinitions are served"
        self._definition_keys = definitions.resource.keys
        self._root = self._definition_keys.root
        self._builtin: dict[GroupResource, ServedResource] = {}
        self._builtin_kinds: dict[GroupVersionKind, ServedResource] = {}
        prefixes: set[str] = set()
        self._stored: list[StoredResource] = []
        for resource in tables.builtins:
            self._builtin.setdefault(resource.group_resource, resource)
            self._builtin_kinds.setdefault(resource.group_version_kind, resource)
            if resource.rest is None and resource.keys.prefix not in prefixes:
                prefixes.add(resource.keys.prefix)
                self._stored.append(StoredResource(resource.group_resource, custom=False, namespaced=resource.namespaced))

    def acting_as(self, user: UserInfo) -> Self:
        """The same client for another user."""
        other = copy(self)
        other._user = user  # noqa: SLF001 - a copy of this object
        return other

    async def get(self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str) -> dict[str, Any]:
        """`Client.get`."""
        scope, served = await self._resolve(cluster, resource)
        try:
            if isinstance(rest := served.resource.rest, RestStorage):
                obj = await rest.get(self._reading("get", Resolved(scope, served, namespace, name)))
                return _dressed(obj, served.resource, scope.name)
            item = await get(self._access, scope, served, namespace, name)
            return await _decoded(served, item, scope.name)
        except StorageError as error:
            raise translate(error) from error

    async def list(self, cluster: ClusterSelection, resource: GroupVersionResource, namespace: str = "") -> ObjectList:
        """`Client.list`."""
        wildcard = isinstance(cluster, Wildcard)
        try:
            if isinstance(cluster, Wildcard):
                scope = None
                served = await self._wildcard.find(*resource)
                if served is None:
                    raise errors.not_found(resource.group_resource, "")
            else:
                scope, served = await self._resolve(cluster, resource)
                if isinstance(rest := served.resource.rest, RestStorage):
                    objects = await rest.list(self._reading("list", Resolved(scope, served, namespace, "")))
                    return ObjectList([_dressed(obj, served.resource, scope.name) for obj in objects], str(self._feed.revision))
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

    async def names(self, cluster: Name, resource: GroupVersionResource) -> Sequence[ObjectName]:
        """`Client.names`."""
        keys = self._keys(resource.group_resource)
        try:
            found = await self._access.storage.range(keys.cluster_prefix(cluster), keys_only=True)
        except StorageError as error:
            raise translate(error) from error
        named = [(keys.locate(item.key), item.mod_revision) for item in found.items]
        return [ObjectName(key.cluster, key.namespace, key.name, str(revision)) for key, revision in named]

    async def held_names(self, cluster: Name, group: str) -> Sequence[HeldNames]:
        """`Client.held_names`."""
        try:
            return [held for held in (await self._tables.get(cluster)).held_names if held.group == group]
        except StorageError as error:
            raise translate(error) from error

    async def create(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """`Client.create`."""

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            new = await _conforming(obj, served.resource)
            target = Resolved(scope, served, new["metadata"].get("namespace", ""), "")
            return await create(self._access, self._request("create", target, CreateOptions()), new)

        return await self._write(cluster, resource, attempt)

    async def update(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """`Client.update`."""
        return await self._update(cluster, resource, obj, "")

    async def update_status(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """`Client.update_status`."""
        # All but the status is taken from the stored object, and some are large.
        return await self._update(cluster, resource, {key: obj[key] for key in ("metadata", "status") if key in obj}, "status")

    async def _update(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any], subresource: str) -> dict[str, Any]:
        metadata = obj["metadata"]

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = _target(scope, served, metadata.get("namespace", ""), metadata["name"], "update", subresource=subresource)
            request = self._request("update", target, UpdateOptions())
            return await update(self._access, request, partial(_conforming, obj, served.resource))

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
    ) -> dict[str, Any]:
        """`Client.patch`."""
        change = await read_patch(orjson.dumps(document), patch_type, strict=False)

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            if patch_type not in patch_types(served.resource):
                raise errors.unsupported_media_type(patch_types(served.resource))
            target = _target(scope, served, namespace, name, "patch", subresource=subresource)
            return await patch(self._access, self._request("patch", target, PatchOptions(field_validation="Ignore")), change)

        return await self._write(cluster, resource, attempt)

    async def apply(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        configuration: Mapping[str, Any],
        *,
        field_manager: str = _MANAGER,
        force: bool = False,
        subresource: str = "",
    ) -> dict[str, Any]:
        """`Client.apply`."""
        metadata, body = configuration["metadata"], orjson.dumps(configuration)

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            target = _target(scope, served, metadata.get("namespace", ""), metadata["name"], "patch", subresource=subresource)
            options = PatchOptions(field_manager=field_manager, field_validation="Ignore", force=force)
            request = self._request("patch", target, options)
            manager = FieldManager(field_manager, self._access.now(), applied=True)
            return await apply(self._access, request._replace(manager=manager), body)

        return await self._write(cluster, resource, attempt)

    def _reading(self, verb: str, target: Resolved) -> ReadRequest:
        """A read of the client's user."""
        return ReadRequest(self._context(verb, target), target)

    def _context(self, verb: str, target: Resolved) -> RequestContext:
        resource = target.resource
        gvr = GroupVersionResource(resource.group, resource.version, resource.resource)
        info = resource_request(verb, gvr, target.namespace, target.name, subresource=target.subresource)
        return RequestContext("", target.scope.name, True, info, self._user, [], {})

    def _request(self, verb: str, target: Resolved, options: WriteOptions) -> WriteRequest:
        """A write of the client's user. Its warnings are for no one."""
        manager = None if verb == "delete" else FieldManager(_MANAGER, self._access.now())
        return WriteRequest(self._context(verb, target), target, options, manager=manager)

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
    ) -> None:
        """`Client.delete`."""
        options = DeleteOptions(
            grace_period_seconds=grace, preconditions=Preconditions(uid, resource_version), propagation_policy=propagation or None
        )

        async def attempt(scope: ClusterScope, served: Served) -> Written:
            return await delete(self._access, self._request("delete", Resolved(scope, served, namespace, name), options))

        await self._carry_out(cluster, resource, attempt)

    async def watch(
        self, cluster: ClusterSelection, resource: GroupVersionResource, resource_version: str
    ) -> AsyncGenerator[WatchEvent, None]:
        """`Client.watch`."""
        wildcard = isinstance(cluster, Wildcard)
        after = parse_resource_version(resource_version)
        begun: Callable[[], Awaitable[None]] | None = None
        if isinstance(cluster, Wildcard):
            served = await self._wildcard.find(*resource)
            if served is None:
                raise errors.not_found(resource.group_resource, "")
        else:
            scope, served = await self._resolve(cluster, resource)
            if 0 < after < scope.created_revision:
                raise errors.expired(f"too old resource version: {after} ({scope.created_revision})")
            after = max(after, scope.created_revision - 1)
            begun = partial(self._clusters.confirm, scope)
        events = follow(self._feed, served.resource.keys.prefix, cluster="" if wildcard else str(cluster), after=after, begun=begun)
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

    def changes(self, resource: GroupVersionResource, *, wanted: Callable[[bytes], bool]) -> AsyncGenerator[Change, None]:
        """`Client.changes`."""
        return scan_changes(self._access.storage, self._feed, self._keys(resource.group_resource), wanted=wanted)

    def on_removal(self, callback: Callable[[Name], None]) -> None:
        """`Client.on_removal`."""
        self._feed.listen_removals(lambda route: callback(Name(route.cluster)))

    def observe(self, observer: Callable[[ObjectChange], None], *, concerned: Concerned, missed: Callable[[], None]) -> None:
        """`Client.observe`."""
        observe(self._feed, self._root, observer, concerned=concerned, missed=missed)

    async def stored_objects(
        self, cluster: Name | None, *, concerned: Concerned, resource: GroupResource | None = None, limit: int = 0
    ) -> AsyncGenerator[ObjectChange, None]:
        """`Client.stored_objects`."""
        if cluster is None:
            prefixes = [f"{self._root}/"]
        elif resource is not None:
            prefixes = [self._keys(resource).cluster_prefix(cluster)]
        else:
            stored = await self.stored_resources(cluster)
            prefixes = [self._keys(one.group_resource).cluster_prefix(cluster) for one in stored]
        found = stored_objects(self._access.storage, self._feed, self._root, prefixes=prefixes, concerned=concerned, limit=limit)
        try:
            async for change in found:
                yield change
        finally:
            await found.aclose()

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> KnownKind | None:
        """`Client.find_kind`."""
        group, _, version = api_version.rpartition("/")
        wanted = GroupVersionKind(group, version, kind)
        resource = self._builtin_kinds.get(wanted)
        if resource is None:
            served = (await self._table(cluster)).find_custom_kind(wanted)
            if served is None:
                return None
            resource = served.resource
        return KnownKind(GroupVersionResource(resource.group, resource.version, resource.resource), resource.namespaced)

    async def served_version(self, cluster: Name, resource: GroupResource) -> GroupVersionResource | None:
        """`Client.served_version`."""
        builtin = self._builtin.get(resource)
        if builtin is not None:
            return GroupVersionResource(builtin.group, builtin.version, builtin.resource)
        served = await self._served_custom(cluster, resource)
        return None if served is None else GroupVersionResource(resource.group, served.resource.version, resource.resource)

    async def get_metadata(self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str) -> dict[str, Any]:
        """`Client.get_metadata`."""
        scope, served = await self._resolve(cluster, resource)
        if served.resource.rest is not None:
            computed = await self.get(cluster, resource, namespace, name)
            return {"apiVersion": computed["apiVersion"], "kind": computed["kind"], "metadata": {"uid": "", **computed["metadata"]}}
        try:
            item = await get(self._access, scope, served, namespace, name)
        except StorageError as error:
            raise translate(error) from error
        obj = orjson.loads(item.value)
        return {
            "apiVersion": obj["apiVersion"],
            "kind": obj["kind"],
            "metadata": {**obj["metadata"], "resourceVersion": str(item.mod_revision)},
        }

    async def stored_resources(self, cluster: Name) -> Sequence[StoredResource]:
        """`Client.stored_resources`."""
        # The names of CRDs say all that is needed, so this holds for CRDs that are not served, and does not wait for caches.
        defined = [_definition_resource(name.name) for name in await self.names(cluster, DEFINITIONS)]
        custom = [StoredResource(resource, custom=True, namespaced=None) for resource in defined if resource not in self._builtin]
        return [*custom, *self._stored]

    async def delete_collection(
        self,
        cluster: Name,
        resource: StoredResource,
        namespace: str = "",
        *,
        settled: Collection[str] = (),
        holder: Holder | None = None,
    ) -> Remaining:
        """`Client.delete_collection`."""
        guard = await self._life_of(cluster, holder) if holder is not None else ()
        seen = self._access.admission.sees("DELETE", resource.group_resource)
        served_now: Served | None
        served: Callable[[], Awaitable[Served | None]] | None = None
        if resource.custom:
            keys, strategy = self._custom_keys(resource.group_resource), Strategy()
            served = partial(self._served_custom, cluster, resource.group_resource)
            served_now = await served() if seen else None
        else:
            builtin = self._builtin[resource.group_resource]
            keys, strategy, served_now = builtin.keys, builtin.strategy, Served(builtin)
        request = None
        prefix = keys.namespace_prefix(cluster, namespace) if namespace else keys.cluster_prefix(cluster)
        try:
            if seen and served_now is not None:
                scope = await self._clusters.scope(cluster) or self._clusters.unborn(cluster)
                request = self._request("delete", Resolved(scope, served_now, namespace, ""), DeleteOptions())
            return await self._deletion.run(
                keys, prefix, strategy, cluster=cluster, settled=settled, served=served, guard=guard, request=request
            )
        except StorageError as error:
            raise translate(error) from error

    async def _life_of(self, cluster: Name, holder: Holder) -> Sequence[Compare]:
        """What holds as long as the holder exists.

        Raises:
            StatusError: 409 where it is gone.
        """
        key = self._keys(holder.resource.group_resource).object_key(cluster, "", holder.name)
        try:
            item = await self._access.storage.get(key)
        except StorageError as error:
            raise translate(error) from error
        if item is None or orjson.loads(item.value)["metadata"]["uid"] != holder.uid:
            raise holder_gone(key)
        return (Compare(key, create_revision=item.create_revision),)

    async def remove_finalizer(
        self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, *, finalizer: str, uid: str
    ) -> None:
        """`Client.remove_finalizer`."""

        async def attempt(scope: ClusterScope, served: Served) -> None:
            keys = served.resource.keys
            item = await self._access.storage.get(keys.object_key(cluster, namespace, name))
            request = self._request("update", Resolved(scope, served, namespace, name), UpdateOptions())
            builtin = self._builtin.get(resource.group_resource)
            strategy = builtin.strategy if builtin is not None else Strategy()
            await remove_finalizer(self._access, keys, item, strategy, finalizer=finalizer, uid=uid, request=request)

        await self._carry_out(cluster, resource, attempt)

    async def _table(self, cluster: Name) -> ResourceTable:
        try:
            return await self._tables.get(cluster)
        except StorageError as error:
            raise translate(error) from error

    async def _served_custom(self, cluster: Name, resource: GroupResource) -> Served | None:
        """A custom resource as it is served, in the version in which it is stored if that is served."""
        found = [served for served in (await self._table(cluster)).served.values() if served.resource.group_resource == resource]
        return max(found, key=lambda served: served.resource.version == served.resource.storage_version, default=None)

    def _keys(self, resource: GroupResource) -> ResourceKeys:
        builtin = self._builtin.get(resource)
        if builtin is not None:
            return builtin.keys
        return self._custom_keys(resource)

    def _custom_keys(self, resource: GroupResource) -> ResourceKeys:
        # Keys say themselves whether they are namespaced (`ResourceKeys.locate`); prefixes are the same.
        return resource_keys(self._root, resource.group, resource.resource, namespaced=True, identity=CUSTOM_RESOURCES)

    async def _resolve(self, cluster: Name, resource: GroupVersionResource) -> tuple[ClusterScope, Served]:
        """The scope, and the resource as it is served there.

        Raises:
            StatusError: 404 for what is not served.
        """
        try:
            scope = await self._clusters.scope(cluster)
            if scope is None:
                scope = self._clusters.unborn(cluster)
            served = self._tables.builtin(*resource) or (await self._tables.get(cluster)).find(*resource)
        except StorageError as error:
            raise translate(error) from error
        if served is None:
            raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})
        return scope, served

    async def _served_in(self, cluster: Name, served: Served, *, wildcard: bool) -> Served | None:
        if not wildcard or not served.definition_key:
            return served
        resource = served.resource
        return (await self._tables.get(cluster)).find(resource.group, resource.version, resource.resource)

    async def _write(
        self, cluster: Name, resource: GroupVersionResource, attempt: Callable[[ClusterScope, Served], Awaitable[Written]]
    ) -> dict[str, Any]:
        """Carry a write out, and show what it has made."""
        served, written = await self._carry_out(cluster, resource, attempt)
        obj = await from_storage(served.resource, orjson.loads(written.value))
        return served.resource.renderer.dress(obj, written.mod_revision, cluster)

    async def _carry_out(
        self, cluster: Name, resource: GroupVersionResource, attempt: Callable[[ClusterScope, Served], Awaitable[T]]
    ) -> tuple[Served, T]:
        """Carry a write out, again where what it relied on has changed meanwhile.

        Raises:
            StatusError: 405 for a computed resource; 503 when every attempt fails on changes of the cluster.
        """
        for tried in range(GUARD_ATTEMPTS):
            scope, served = await self._resolve(cluster, resource)
            if served.resource.rest is not None:
                raise errors.method_not_supported(resource.group_resource, "this verb", " by the in-process client")
            try:
                return served, await attempt(scope, served)
            except StaleScopeError:
                self._clusters.invalidate(cluster)
                self._tables.invalidate(cluster)
                if tried:
                    await asyncio.sleep(0.001 * 2**tried)
            except StorageError as error:
                raise translate(error) from error
        raise errors.service_unavailable("the logical cluster is changing, please try again", retry_after_seconds=1)


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


async def _conforming(obj: Mapping[str, Any], resource: ServedResource) -> dict[str, Any]:
    """A copy of a caller's object as the registry takes it: pruned, with defaults."""
    new: dict[str, Any] = orjson.loads(orjson.dumps({"apiVersion": resource.group_version, "kind": resource.kind, **obj}))
    check_metadata(new, resource)
    return await conform(new, resource, field_validation="Ignore", warnings=[])


def _definition_resource(name: str) -> GroupResource:
    plural, _, group = name.partition(".")
    return GroupResource("" if group == "core" else group, plural)
