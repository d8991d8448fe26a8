"""`LocalTap`: the tap on the store of the same process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import Self

from kcp_py.aio.cooperative import Throttle
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apimachinery.meta.options import DeleteOptions, UpdateOptions
from kcp_py.client.following import Followers, scan_changes
from kcp_py.client.observation import observe, stored_objects
from kcp_py.client.requests import Resolver, write_request
from kcp_py.client.scanning import ScanProgress
from kcp_py.client.tap import Holder, ObjectChange, ObjectFilter, StoredResource
from kcp_py.client.unfinished import WorkRecord
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import HeldNames
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.content import StoredCollection, StoredContent, StoredHolder
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import translate
from kcp_py.registry.store.collection import Remaining
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.request.user import LOOPBACK, UserInfo
from kcp_py.schema.crd.names_conditions import BuiltinNames
from kcp_py.storage.contract import StorageError
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, resource_keys
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout


class LocalTap:
    """A `Tap` on the registry of this process."""

    def __init__(
        self,
        access: Access,
        *,
        tables: ResourceTables,
        crds: CRDSource,
        clusters: LogicalClusters,
        fanout: Fanout,
        quotas: QuotaLedger | None = None,
        user: UserInfo = LOOPBACK,
    ) -> None:
        """Put the parts of the registry together.

        Args:
            access: the store.
            tables: what each cluster serves.
            crds: what the CRDs of each cluster define.
            clusters: which there are.
            fanout: the store's changes.
            quotas: counts quotas anew; None where nothing charges them.
            user: who deletes, as admission sees it.
        """
        self._user = user
        self._access = access
        self._tables = tables
        self._crds = crds
        self._clusters = clusters
        self._fanout = fanout
        self._quotas = quotas
        self._resolver = Resolver(tables, clusters)
        self._content = StoredContent(access, clusters)
        self._crd_keys = crds.keys
        self._root = self._crd_keys.root
        self._scans = Throttle.of_scans()
        self.progress = ScanProgress(access.storage, fanout, self._root, throttle=self._scans)
        """Reads the whole store step by step, and remembers across restarts how far it was read."""
        self._followers = Followers(fanout)
        self.work = WorkRecord(access.storage, self._root, self._followers, keys_of=self._keys)
        """What controllers have not finished, for the next process."""
        self._builtin = tables.builtin_resources
        self._builtin_names: dict[str, list[BuiltinNames]] = {}
        for one in tables.builtins:
            names = BuiltinNames(one.resource, one.singular, one.kind, one.list_kind, tuple(one.short_names))
            self._builtin_names.setdefault(one.group, []).append(names)
        self._declared: dict[GroupResource, ServedResource] = {}
        """Resources that are served without a CRD, in all clusters or in some."""
        prefixes: set[str] = set()
        self._stored: list[StoredResource] = []
        for resource in chain(tables.builtins, tables.declared):
            if resource.rest is None and resource.keys.prefix not in prefixes:
                prefixes.add(resource.keys.prefix)
                self._declared.setdefault(resource.group_resource, resource)
                self._stored.append(StoredResource(resource.group_resource, custom=False, namespaced=resource.namespaced))

    def acting_as(self, user: UserInfo) -> Self:
        """This tap as another user."""
        other = copy(self)
        other._user = user  # noqa: SLF001 - a copy of this object
        return other

    @property
    def reads_existing(self) -> bool:
        """Whether controllers still have to read objects that existed at their start."""
        return self._followers.reading or self.progress.scans > 0

    def changes(self, resource: GroupVersionResource, *, wanted: ObjectFilter) -> AsyncGenerator[ObjectChange, None]:
        """`Tap.changes`."""
        group_resource = resource.group_resource
        return scan_changes(
            self._access.storage,
            self._followers,
            self._keys(group_resource),
            resource=group_resource,
            wanted=wanted,
            throttle=self._scans,
        )

    def on_removal(self, callback: Callable[[Name], None]) -> Callable[[], None]:
        """`Tap.on_removal`."""
        return self._fanout.listen_removals(lambda route: callback(Name(route.cluster)))

    def observe(
        self, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
    ) -> Callable[[], None]:
        """`Tap.observe`."""
        return observe(self._fanout, self._root, observer, concerned=concerned, missed=missed)

    async def stored_objects(
        self, cluster: Name | None, *, concerned: ObjectFilter, resource: GroupResource | None = None, limit: int = 0
    ) -> AsyncGenerator[ObjectChange, None]:
        """`Tap.stored_objects`."""
        if cluster is None:
            prefixes = [f"{self._root}/"]
        elif resource is not None:
            prefixes = [(await self._keys_in(cluster, resource)).cluster_prefix(cluster)]
        else:
            stored = await self.stored_resources(cluster)
            prefixes = [self._keys_of(one).cluster_prefix(cluster) for one in stored]
        throttle = self._scans if cluster is None else None
        found = stored_objects(
            self._access.storage, self._fanout, self._root, prefixes=prefixes, concerned=concerned, limit=limit, throttle=throttle
        )
        try:
            async for change in found:
                yield change
        finally:
            await found.aclose()

    async def held_names(self, cluster: Name, group: str) -> Sequence[HeldNames]:
        """`Tap.held_names`."""
        try:
            return [held for held in await self._crds.held_names(cluster) if held.group == group]
        except StorageError as error:
            raise translate(error) from error

    async def builtin_names(self) -> Mapping[str, Sequence[BuiltinNames]]:
        """`Tap.builtin_names`."""
        return self._builtin_names

    async def stored_resources(self, cluster: Name) -> Sequence[StoredResource]:
        """`Tap.stored_resources`."""
        # The names of CRDs say all that is needed, so this holds for CRDs that are not served, and does not wait for caches.
        try:
            found = await self._access.storage.range(self._crd_keys.cluster_prefix(cluster), keys_only=True)
        except StorageError as error:
            raise translate(error) from error
        defined = [_resource_of(self._crd_keys.locate(item.key).name) for item in found.items]
        custom = [StoredResource(resource, custom=True, namespaced=None) for resource in defined if resource not in self._builtin]
        return [*custom, *self._stored]

    async def stored_keys(self, cluster: Name) -> Sequence[ResourceKeys]:
        """The keys of each resource that may have objects in a cluster.

        Raises:
            StatusError: 503, the store cannot be read.
        """
        return [self._keys_of(one) for one in await self.stored_resources(cluster)]

    async def delete_stored(
        self,
        cluster: Name,
        resource: StoredResource,
        namespace: str = "",
        *,
        settled: Collection[str] = (),
        holder: Holder | None = None,
    ) -> Remaining:
        """`Tap.delete_stored`.

        Raises:
            StatusError: 400 for a resource that is neither custom nor of the server, and for a namespace or a holder that cannot be; see
                `Tap.delete_stored`.
        """
        group_resource = resource.group_resource
        if resource.custom:
            find = partial(self._served_custom, cluster, group_resource)
            collection = StoredCollection(cluster, self._custom_keys(group_resource), namespace, find=find)
        elif (declared := self._declared.get(group_resource)) is not None:
            if namespace:
                _check_scope(group_resource, declared.keys, namespace)
            collection = StoredCollection(cluster, declared.keys, namespace, builtin=Served(declared))
        else:
            raise errors.bad_request(f"the server stores no {group_resource}")
        stored_holder = None
        if holder is not None:
            keys = self._keys(holder.resource.group_resource)
            _check_scope(holder.resource.group_resource, keys, "")
            stored_holder = StoredHolder(keys.object_key(cluster, "", holder.name), holder.uid)
        return await self._content.delete(collection, settled=settled, holder=stored_holder, request_for=self._deletion)

    def _deletion(self, target: Resolved) -> WriteRequest:
        """The deletion of a collection as admission sees it."""
        return write_request(self._access, self._user, "delete", target=target, options=DeleteOptions())

    async def remove_finalizer(
        self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, *, finalizer: str, uid: str
    ) -> None:
        """`Tap.remove_finalizer`."""

        async def attempt(cluster_state: ClusterState, served: Served) -> None:
            _check_scope(resource.group_resource, served.resource.keys, namespace)
            target = Resolved(cluster_state, served, namespace, name)
            request = write_request(self._access, self._user, "update", target=target, options=UpdateOptions())
            await self._content.remove_finalizer(request, finalizer, uid=uid)

        await self._resolver.carry_out(cluster, resource, attempt)

    async def recount_quota(self, cluster: Name, namespace: str, name: str) -> None:
        """`Tap.recount_quota`."""
        if self._quotas is None:
            return
        try:
            await self._quotas.recount(cluster, namespace, name)
        except StorageError as error:
            raise translate(error) from error

    async def _served_custom(self, cluster: Name, resource: GroupResource) -> Served | None:
        try:
            return (await self._tables.get(cluster)).find_own(resource)
        except StorageError as error:
            raise translate(error) from error

    def _keys(self, resource: GroupResource) -> ResourceKeys:
        builtin = self._builtin.get(resource)
        if builtin is not None:
            return builtin.keys
        return self._custom_keys(resource)

    def _keys_of(self, resource: StoredResource) -> ResourceKeys:
        group_resource = resource.group_resource
        return self._custom_keys(group_resource) if resource.custom else self._declared[group_resource].keys

    async def _keys_in(self, cluster: Name, resource: GroupResource) -> ResourceKeys:
        """The keys of a resource in a cluster, which may serve it by a CRD or by another source."""
        if resource not in self._declared or resource in self._builtin:
            return self._keys(resource)
        own = await self._served_custom(cluster, resource)
        return own.resource.keys if own is not None else self._declared[resource].keys

    def _custom_keys(self, resource: GroupResource) -> ResourceKeys:
        # Keys say themselves whether they are namespaced (`ResourceKeys.locate`); prefixes are the same.
        return resource_keys(self._root, resource.group, resource.resource, namespaced=True, identity=CUSTOM_RESOURCES)


def _check_scope(resource: GroupResource, keys: ResourceKeys, namespace: str) -> None:
    """Refuse a namespace for objects of a cluster-scoped resource, and none for those of a namespaced one.

    Raises:
        StatusError: 400.
    """
    if bool(namespace) is not keys.namespaced:
        raise errors.bad_request(f"{resource} {'needs a' if keys.namespaced else 'takes no'} namespace")


def _resource_of(crd: str) -> GroupResource:
    """The resource that a CRD of this name defines."""
    plural, _, group = crd.partition(".")
    return GroupResource("" if group == "core" else group, plural)
