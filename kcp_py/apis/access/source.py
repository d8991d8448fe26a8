"""`GrantSource`: serves ClusterAccessGrants in the logical cluster `root`, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.access.schema import COLUMNS, SCHEMA
from kcp_py.apis.access.strategy import GRANTS, GrantStrategy
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.registry.catalog.source import Dependency, ResourceSource, SourceContext
from kcp_py.registry.resource import Served
from kcp_py.registry.stored import StoredResource
from kcp_py.storage.keys import ResourceKeys, resource_keys


def grant_keys(root: str) -> ResourceKeys:
    """The keys of the objects. `root` is the prefix of the store's keys."""
    return resource_keys(root, *GRANTS, namespaced=False)


class GrantSource(ResourceSource):
    """Compiles the resource when `root` is first asked for: a server that is not asked starts without it."""

    tells_single = True
    depends_elsewhere = False

    def __init__(self) -> None:
        self._context: SourceContext | None = None
        self._served: tuple[Served, ...] = ()

    def connect(self, context: SourceContext) -> None:
        """`ResourceSource.connect`."""
        self._context = context

    async def resources(self, cluster: Name) -> Sequence[Served]:
        """`ResourceSource.resources`."""
        if cluster != ROOT:
            return ()
        if not self._served:
            assert self._context is not None, "sources are connected first"
            described = StoredResource(
                group=GRANTS.group,
                version="v1alpha1",
                resource=GRANTS.resource,
                kind="ClusterAccessGrant",
                schema=SCHEMA,
                strategy=GrantStrategy(),
                namespaced=False,
                columns=COLUMNS,
            )
            self._served = (Served(self._context.serve(described)),)
        return self._served

    async def resource_in_each(self, clusters: Sequence[Name], resource: GroupResource) -> Sequence[Sequence[Served]]:
        """`ResourceSource.resource_in_each`."""
        if resource != GRANTS:
            return [()] * len(clusters)
        return [await self.resources(cluster) for cluster in clusters]

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        """`ResourceSource.depends_on`: nothing."""
        del cluster
        return ()

    async def group_resources(self) -> Collection[GroupResource]:
        """`ResourceSource.group_resources`."""
        return (GRANTS,)

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """`ResourceSource.clusters`."""
        return (ROOT,) if resource == GRANTS else ()
