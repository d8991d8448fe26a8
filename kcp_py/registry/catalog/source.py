"""`ResourceSource`: what adds resources to logical clusters, and when its answers become stale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.storage.contract import Storage
from kcp_py.watchcache import Fanout, ObjectEvent


class DescribedResource(Protocol):
    """A resource as the author of its API describes it."""

    def served(self, root: str) -> ServedResource:
        """The resource as clusters serve it. `root` is the prefix of the store's keys."""
        ...


class Dependency(NamedTuple):
    """The objects of one resource in one logical cluster, on which an answer of a source depends."""

    prefix: str
    """Of the keys of the resource (`ResourceKeys.prefix`)."""
    cluster: Name
    """The cluster that has the objects: the one that is served or another one."""


class EndedWatches(NamedTuple):
    """The watches of one resource in one logical cluster."""

    prefix: str
    """Of the keys of the resource."""
    cluster: Name


class ServedChange(NamedTuple):
    """One logical cluster begins or ceases to serve a resource."""

    prefix: str
    """Of the keys of the resource."""
    cluster: Name
    served: bool
    """Whether the cluster serves the resource from now on."""


class SourceContext(NamedTuple):
    """What a source works with."""

    storage: Storage
    """For reading."""
    fanout: Fanout
    """The changes of the store."""
    root: str
    """The prefix of all keys, such as `/registry`."""
    annotated: bool = True
    """See `ServedResource.annotated`."""

    def serve(self, described: DescribedResource) -> ServedResource:
        """A resource by its description, as clusters of this server serve it."""
        resource = described.served(self.root)
        return resource if self.annotated else replace(resource, annotated=False)


class ResourceSource(ABC):
    """One of the places that the resources of logical clusters come from.

    What a cluster serves is the sum of all sources. A resource belongs to the first source that serves it in any version, in the order in
    which the sources are listed; resources that every cluster serves come first.

    A source that serves a resource in some clusters only has to give it guards (`Served.guards`), so that nothing is stored in a cluster
    that ceased to serve the resource meanwhile.
    """

    everywhere: Sequence[Served] = ()
    """What every cluster serves. A source has either these, and then nothing else, or resources of single clusters."""
    tells_single: bool = False
    """Whether `resource_in` takes much less than `resources`. Lists over all clusters then ask it, instead of working out the tables of all
    clusters; but they ask again in each list, because no answer is kept."""

    depends_elsewhere: bool = True
    """Whether `depends_on` may name other clusters, or other resources than in `root`. Lists over all clusters then ask it."""

    @property
    def declared(self) -> Sequence[ServedResource]:
        """The resources that the source may serve in single clusters, as far as it knows them when the server starts.

        Their objects go with their cluster or namespace, even where the source has ceased to serve them.
        """
        return ()

    def connect(self, context: SourceContext) -> None:
        """Called once, before any other method."""
        del context

    @abstractmethod
    async def resources(self, cluster: Name) -> Sequence[Served]:
        """What the source serves in a cluster, in an order that depends on nothing but the content.

        The answer is kept until something changes that the source depends on. Clusters with the same resources should get the same
        `ServedResource` objects: documents and compiled schemas are shared by them.

        Raises:
            StorageError: the store cannot be read.
        """

    async def resource_in(self, cluster: Name, resource: GroupResource) -> Sequence[Served]:
        """What `resources` has of one resource, in all its versions. See `tells_single`.

        Raises:
            StorageError: the store cannot be read.
        """
        return [served for served in await self.resources(cluster) if served.resource.group_resource == resource]

    async def resource_in_each(self, clusters: Sequence[Name], resource: GroupResource) -> Sequence[Sequence[Served]]:
        """`resource_in` for some clusters, in their order, to read stored objects: guards, life and origin may be missing.

        Raises:
            StorageError: the store cannot be read.
        """
        return [await self.resource_in(cluster, resource) for cluster in clusters]

    @abstractmethod
    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        """What makes the answer of `resources` stale. Asked before each call of `resources` and after it."""

    @abstractmethod
    async def group_resources(self) -> Collection[GroupResource]:
        """The resources that the source may serve in at least one cluster."""

    @abstractmethod
    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        """The clusters that may have a resource from this source. Their tables say whether they do."""

    async def each_cluster(self, wanted: Collection[GroupResource]) -> AsyncGenerator[tuple[GroupResource, Name], None]:
        """`clusters` of some resources, pair by pair: most requests need few of them.

        A consumer that has found a resource removes it from `wanted`, and gets no further pairs of it. A source of very many clusters
        should not look for all of them at once.
        """
        for resource in [*wanted]:
            for cluster in await self.clusters(resource):
                if resource not in wanted:
                    break
                yield resource, cluster

    def ended_by(self, event: ObjectEvent) -> Iterable[EndedWatches]:
        """The watches that end with a change of an object that the source depends on: their resource is another one or gone.

        Must not block and must not raise. Watches of all clusters at once do not end with the resources of one, see `changes`.
        """
        del event
        return ()

    def changes(self, event: ObjectEvent) -> Iterable[ServedChange]:
        """What a cluster begins or ceases to serve with a change of an object that the source depends on.

        Watches over all clusters show the objects that the cluster stores as ADDED or DELETED then. The answer must follow from the event
        alone, its `previous` and its `value`: watches that resume at an older revision ask again. Only resources in `declared` count. Must
        not block and must not raise. CRDs need none: their objects are deleted with them.
        """
        del event
        return ()

    def invalidate(self, cluster: Name) -> None:
        """Drop cached values of a cluster: a write found that they are stale. The event of the change may not have arrived yet."""
        del cluster

    def clear(self) -> None:  # noqa: B027 - most sources keep nothing
        """Forget everything: events may have been missed."""
