"""Requests of the process itself: whose they are, what they are about, and when they are tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, runtime_checkable

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.options import CreateOptions, ListOptions
from kcp_py.client.contract import FIELD_MANAGER
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, Name, Wildcard
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.computed import ComputedObjects
from kcp_py.registry.rest.registry import Clusters, Registry, changing, forget
from kcp_py.registry.rest.storage import ReadRequest
from kcp_py.registry.rest.stored import StoredObjects
from kcp_py.registry.rest.verbs import Verbs
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import GUARD_ATTEMPTS, translate
from kcp_py.registry.writerequest import NO_BODY, Decoding, FieldManager, Resolved, WriteOptions, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import resource_request
from kcp_py.request.sight import EVERY_CLUSTER
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import StorageError

_NO_OPTIONS: Final = ListOptions()

T = TypeVar("T")


@runtime_checkable
class RequestObserver(Protocol):
    """Sees the requests that this process makes. A filter of a program that has these methods is one."""

    async def around(self, context: RequestContext, proceed: Callable[[], Awaitable[T]]) -> T:
        """Carry out a request: `proceed` does. A watch is carried out when it has begun.

        Raises:
            StatusError: the answer in place of that of the request.
        """

    def watching(self, context: RequestContext, end: Callable[[Exception], None]) -> Callable[[], None]:
        """A watch has begun.

        Args:
            context: of the request.
            end: ends the watch, see `Watcher.end`.

        Returns:
            A function that is called once when it has ended.
        """


Storage = StoredObjects | ComputedObjects


def request_context(user: UserInfo, verb: str, target: Resolved) -> RequestContext:
    """The context of a request of this process. Its warnings have no reader."""
    info = resource_request(verb, target.resource.key, target.namespace, target.name, subresource=target.subresource)
    return RequestContext("", WILDCARD if target.only is None else target.only.name, True, info, user, [], {}, target.sight)


def write_request(
    access: Access, user: UserInfo, verb: str, *, target: Resolved, options: WriteOptions, decoding: Decoding = NO_BODY
) -> WriteRequest:
    """A write of this process.

    Args:
        access: the store, for the time.
        user: who writes.
        verb: `create`, `update`, `patch` or `delete`.
        target: the object to write.
        options: of the verb. They name the owner of the fields that change, else it is `FIELD_MANAGER`.
        decoding: gives the object of an update again.
    """
    manager = FieldManager(options.field_manager or FIELD_MANAGER, access.now()) if isinstance(options, CreateOptions) else None
    return WriteRequest(request_context(user, verb, target), target, options, manager=manager, decoding=decoding)


class Resolver:
    """Finds what a request is about, in the caches of the clusters and their resources."""

    def __init__(self, tables: ResourceTables, clusters: Clusters) -> None:
        self._tables = tables
        self._clusters = clusters

    async def resolve(self, cluster: Name, resource: GroupVersionResource) -> tuple[ClusterState, Served]:
        """The state of the cluster, and the resource as it is served there.

        Raises:
            StatusError: 404 for a resource that is not served.
        """
        try:
            cluster_state = await self._clusters.state(cluster)
            if cluster_state is None:
                cluster_state = self._clusters.uncreated(cluster)
            served = self._tables.builtin(*resource) or (await self._tables.get(cluster)).find(*resource)
        except StorageError as error:
            raise translate(error) from error
        if served is None:
            raise errors.unserved()
        return cluster_state, served

    async def carry_out(
        self, cluster: Name, resource: GroupVersionResource, attempt: Callable[[ClusterState, Served], Awaitable[T]]
    ) -> tuple[Served, T]:
        """Carry a request out, again where the cluster or the CRD has changed meanwhile.

        Raises:
            StatusError: 503 when every attempt fails on changes of the cluster.
        """
        for tried in range(GUARD_ATTEMPTS):
            cluster_state, served = await self.resolve(cluster, resource)
            try:
                return served, await attempt(cluster_state, served)
            except StaleStateError:
                await forget(self._clusters, self._tables, cluster, tried)
            except StorageError as error:
                raise translate(error) from error
        raise changing()


def _nothing() -> None:
    pass


class Requests:
    """Makes the requests of a user, and calls the verbs that serve them."""

    def __init__(
        self, registry: Registry, user: UserInfo, observer: RequestObserver | None = None, *, part: str = "", applied: bool = False
    ) -> None:
        self._part = part
        self._applied = applied
        self._registry = registry
        self._observer = observer
        self._user = user
        self._verbs = Verbs(registry)
        self._resolver = Resolver(registry.tables, registry.clusters)

    def read(self, verb: str, target: Resolved, options: ListOptions = _NO_OPTIONS) -> ReadRequest:
        """A get, a list or a watch."""
        return ReadRequest(request_context(self._user, verb, target), target, options)

    def watching(self, target: Resolved, end: Callable[[Exception], None]) -> Callable[[], None]:
        """Tell the observer of a watch that has begun; returns what to call at its end."""
        return _nothing if self._observer is None else self._observer.watching(request_context(self._user, "watch", target), end)

    def write(self, verb: str, target: Resolved, options: WriteOptions, decoding: Decoding = NO_BODY) -> WriteRequest:
        """See `write_request`."""
        request = write_request(self._registry.access, self._user, verb, target=target, options=options, decoding=decoding)
        if request.manager is None or not self._part:
            return request
        return request._replace(manager=request.manager._replace(part=self._part, applied=self._applied))

    async def call(
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
        """Call a verb of what serves a resource, again where the cluster or the CRD has changed meanwhile.

        Raises:
            StatusError: 404 for an unserved resource, 405 for a verb that the subresource does not have, and the errors of the verb.
        """

        async def attempt(cluster_state: ClusterState | None, served: Served) -> T:
            target = Resolved(cluster_state, served, namespace, name, subresource, EVERY_CLUSTER)
            found = self._verbs.find(target, verb)
            if self._observer is None:
                return await call(found, target)
            return await self._observer.around(request_context(self._user, verb, target), lambda: call(found, target))

        if not isinstance(cluster, Wildcard):
            return (await self._resolver.carry_out(cluster, resource, attempt))[1]
        try:
            found = await self._registry.wildcard.find(*resource, sight=EVERY_CLUSTER)
            if found is None:
                raise errors.unserved()
            return await attempt(None, found)
        except StorageError as error:
            raise translate(error) from error
