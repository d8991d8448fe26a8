"""`ContainedSource`: a source of a program whose failures stay where they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import TypeVar

import structlog

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.source import Dependency, EndedWatches, ResourceSource, ServedChange, SourceContext
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.storage.contract import StorageError
from kcp_py.storage.keys import Route
from kcp_py.telemetry.programcode import failed_function, passes
from kcp_py.watchcache import ObjectEvent

T = TypeVar("T")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


class ContainedSource(ResourceSource):
    """Passes all calls on. Questions that concern several clusters are answered even if the source fails.

    Changes of the store pass `ended_by` and `changes` on their way to the watches of all clusters, and lists over all clusters ask for
    `clusters`: a failure there would hurt all of them.
    """

    def __init__(self, source: ResourceSource) -> None:
        """Contain a source."""
        self._source = source
        self.everywhere = source.everywhere
        self.tells_single = source.tells_single
        self.depends_elsewhere = source.depends_elsewhere

    @property
    def declared(self) -> Sequence[ServedResource]:
        """`ResourceSource.declared`."""
        return self._source.declared

    def connect(self, context: SourceContext) -> None:
        """`ResourceSource.connect`."""
        self._source.connect(context)
        self.everywhere = self._source.everywhere

    async def resources(self, cluster: Name) -> Sequence[Served]:
        """`ResourceSource.resources`. A failure is an answer to those who ask for something in the cluster."""
        return await self._source.resources(cluster)

    async def resource_in(self, cluster: Name, resource: GroupResource) -> Sequence[Served]:
        """`ResourceSource.resource_in`, as `resources`."""
        return await self._source.resource_in(cluster, resource)

    async def resource_in_each(self, clusters: Sequence[Name], resource: GroupResource) -> Sequence[Sequence[Served]]:
        """`ResourceSource.resource_in_each`, as `resources`."""
        return await self._source.resource_in_each(clusters, resource)

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        """`ResourceSource.depends_on`, as `resources`."""
        return self._source.depends_on(cluster)

    async def group_resources(self) -> Collection[GroupResource]:
        """`ResourceSource.group_resources`; those that are declared if the source fails."""
        try:
            return await self._source.group_resources()
        except BaseException as error:  # noqa: BLE001 - `_note` raises what has to go on
            self._note(error)
            return {resource.group_resource for resource in self.declared}

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """`ResourceSource.clusters`; none if the source fails."""
        try:
            return await self._source.clusters(resource)
        except BaseException as error:  # noqa: BLE001 - `_note` raises what has to go on
            self._note(error)
            return ()

    async def each_cluster(self, wanted: Collection[GroupResource]) -> AsyncGenerator[tuple[GroupResource, Name], None]:
        """`ResourceSource.each_cluster`; no further ones if the source fails."""
        async with aclosing(self._source.each_cluster(wanted)) as pairs:
            while True:
                try:
                    pair = await anext(pairs, None)
                except BaseException as error:  # noqa: BLE001 - `_note` raises what has to go on
                    self._note(error)
                    return
                if pair is None:
                    return
                yield pair

    def ended_by(self, event: ObjectEvent) -> Iterable[EndedWatches]:
        """`ResourceSource.ended_by`; the watches of all that is declared, in the cluster of the change, if the source fails."""
        found = self._contained(lambda: [*self._source.ended_by(event)], event.route)
        if found is not None:
            return found
        cluster = Name(event.route.cluster)
        return [EndedWatches(prefix, cluster) for prefix in {one.keys.prefix for one in self.declared if one.rest is None}]

    def changes(self, event: ObjectEvent) -> Iterable[ServedChange]:
        """`ResourceSource.changes`; none if the source fails."""
        return self._contained(lambda: [*self._source.changes(event)], event.route) or ()

    def invalidate(self, cluster: Name) -> None:
        """`ResourceSource.invalidate`."""
        self._contained(lambda: self._source.invalidate(cluster))

    def clear(self) -> None:
        """`ResourceSource.clear`."""
        self._contained(self._source.clear)

    def _contained(self, call: Callable[[], T], route: Route | None = None) -> T | None:
        try:
            return call()
        except BaseException as error:  # noqa: BLE001 - `_note` raises what has to go on
            self._note(error, route)
            return None

    def _note(self, error: BaseException, route: Route | None = None) -> None:
        """Log a failure of the source. Other exceptions go on."""
        if passes(error) or isinstance(error, StorageError):
            raise error
        source, cluster = type(self._source).__qualname__, "" if route is None else route.cluster
        _log.error("source_failed", source=source, function=failed_function(error), cluster=cluster, exc_info=error)
