"""`StaticSource`: resources that every logical cluster serves, such as the built-in ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.source import Dependency, ResourceSource
from kcp_py.registry.resource import Served, ServedResource


class StaticSource(ResourceSource):
    """Resources that are known when the server starts. They need no table of a cluster."""

    def __init__(self, resources: Iterable[ServedResource]) -> None:
        """Serve `resources`, in the order of discovery."""
        self.everywhere = tuple(map(Served, resources))

    async def resources(self, cluster: Name) -> Sequence[Served]:
        """`ResourceSource.resources`."""
        del cluster
        return self.everywhere

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        """`ResourceSource.depends_on`: nothing."""
        del cluster
        return ()

    async def group_resources(self) -> Collection[GroupResource]:
        """`ResourceSource.group_resources`."""
        return {served.resource.group_resource for served in self.everywhere}

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """`ResourceSource.clusters`. It is not asked: all clusters serve the resources."""
        del resource
        return ()
