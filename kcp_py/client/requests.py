"""Requests of the process itself: whose they are, what they are about, and when they are tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import FIELD_MANAGER
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.registry import Clusters, changing, forget
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import GUARD_ATTEMPTS, translate
from kcp_py.registry.writerequest import FieldManager, Resolved, WriteOptions, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import resource_request
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import StorageError

T = TypeVar("T")


def request_context(user: UserInfo, verb: str, target: Resolved) -> RequestContext:
    """The context of a request of this process. Its warnings have no reader."""
    info = resource_request(verb, target.resource.key, target.namespace, target.name, subresource=target.subresource)
    return RequestContext("", WILDCARD if target.only is None else target.only.name, True, info, user, [], {})


def write_request(
    access: Access, user: UserInfo, verb: str, *, target: Resolved, options: WriteOptions, field_manager: str = FIELD_MANAGER
) -> WriteRequest:
    """A write of this process.

    Args:
        access: the store, for the time.
        user: who writes.
        verb: `create`, `update`, `patch` or `delete`.
        target: the object to write.
        options: of the verb.
        field_manager: owns the fields that change.
    """
    manager = None if verb == "delete" else FieldManager(field_manager, access.now())
    return WriteRequest(request_context(user, verb, target), target, options, manager=manager)


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
        """Carry a request out, again where the cluster or the definition has changed meanwhile.

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
