"""`Tap`: what controllers need of the store itself, beyond the API of `client.contract`.

A method is here for one of three reasons. It sees objects of every resource at once, in the order of the store (`observe`,
`stored_objects`, `on_removal`). It reads or deletes objects whose resource is not served any more (`stored_resources`, `delete_stored`,
`remove_finalizer`). Or it reads bytes and caches, since decoding the objects of very many clusters would cost too much (`changes`,
`held_names`, `builtin_names`).
Everything else is a request like any other, and belongs to the `Client`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.compilation import HeldNames
from kcp_py.registry.store.collection import Remaining
from kcp_py.request.user import UserInfo
from kcp_py.schema.crd.names_conditions import BuiltinNames


class ObjectChange(NamedTuple):
    """A change of one object of any resource; or an object that exists, with nothing before it."""

    cluster: Name
    resource: GroupResource
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    value: bytes | None
    """The object as JSON, in its storage version and without resourceVersion; None where it was removed. A tap may leave out everything but
    apiVersion, kind and metadata where objects of every resource are shown."""
    previous: bytes | None
    """The object before; None where it did not exist. `changes` may leave it out."""


class ObjectFilter(NamedTuple):
    """Which objects a tap shows, by their bytes: a cheap look, which may show too many. It is data, so that it can be sent to a server."""

    contains: tuple[tuple[bytes, ...], ...] = ()
    """Objects that contain all texts of any of these groups are shown."""
    lacks: tuple[bytes, ...] = ()
    """Objects without any one of these texts are shown. Where neither texts nor these are given, all objects are."""
    ignored: frozenset[GroupResource] = frozenset()
    """Resources of which nothing is shown."""
    always: frozenset[GroupResource] = frozenset()
    """Resources of which every change is shown."""

    def matches(self, value: bytes) -> bool:
        """Whether an object is shown, by its texts."""
        contains, lacks = self.contains, self.lacks
        if not (contains or lacks):
            return True
        # Without generators, and without a second search for a text: each write of the server comes here, and a search takes 1 us.
        missing = None
        for texts in contains:
            if texts and texts[0] == missing:
                continue
            for text in texts:
                if text not in value:
                    missing = text
                    break
            else:
                return True
        return bool(lacks) and any(text not in value for text in lacks)

    def shows(self, resource: GroupResource, value: bytes | None, previous: bytes | None) -> bool:
        """Whether a change is shown: one to or from an object that is, and every removal."""
        if resource in self.ignored:
            return False
        if value is None:
            return previous is not None
        return resource in self.always or self.matches(value) or (previous is not None and self.matches(previous))


EVERYTHING: Final = ObjectFilter()


class Holder(NamedTuple):
    """The cluster-scoped object with which other objects are deleted: a namespace, a CRD or a LogicalCluster."""

    resource: GroupVersionResource
    name: str
    uid: str


class StoredResource(NamedTuple):
    """A resource of which a cluster may hold objects."""

    group_resource: GroupResource
    custom: bool
    """Whether it comes from a CRD of the cluster."""
    namespaced: bool | None
    """None where only the CRD says so."""


class Tap(Protocol):
    """The store of all logical clusters, for controllers."""

    def acting_as(self, user: UserInfo) -> Tap:
        """This tap as another user, for admission and audit of its deletions."""
        ...

    def changes(self, resource: GroupVersionResource, *, wanted: ObjectFilter) -> AsyncGenerator[ObjectChange, None]:
        """The changes of one resource in all clusters, in bounded memory.

        Changes from now on come at once. Between them comes every object that exists already and that `wanted` matches. So an object may
        come twice. The generator ends when the server ends the watch: ask again.

        Args:
            resource: the resource.
            wanted: applied to objects that exist already and not to changes.
        """
        ...

    def on_removal(self, callback: Callable[[Name], None]) -> Callable[[], None]:
        """Have a function called with the cluster whenever an object of any kind is removed in one.

        A hint for controllers that wait for objects to go: an implementation that does not see removals calls nothing. The function must
        not block or raise.

        Returns:
            Ends the calls.
        """
        ...

    def observe(
        self, observer: Callable[[ObjectChange], None], *, concerned: ObjectFilter, missed: Callable[[], None]
    ) -> Callable[[], None]:
        """Have a function called with every change of every object in every cluster, in the order of the store.

        Args:
            observer: must not block or raise. It is called after the resources that a cluster serves have followed the change.
            concerned: which changes it is called with.
            missed: called when changes may have been missed.

        Returns:
            Ends the calls.
        """
        ...

    def stored_objects(
        self, cluster: Name | None, *, concerned: ObjectFilter, resource: GroupResource | None = None, limit: int = 0
    ) -> AsyncGenerator[ObjectChange, None]:
        """Every object that exists. When it ends, observers have been called with every change up to the revision that was read.

        Args:
            cluster: None for all clusters.
            concerned: which objects are shown.
            resource: only this one, of one cluster.
            limit: how many objects of each resource are looked at, at the most; 0 for all.
        """
        ...

    async def held_names(self, cluster: Name, group: str) -> Sequence[HeldNames]:
        """The names that the CustomResourceDefinitions of a group hold, without reading CRDs whose names are known."""
        ...

    async def builtin_names(self) -> Mapping[str, Sequence[BuiltinNames]]:
        """The names that resources without a CRD hold, by their groups. They stay the same while the server runs."""
        ...

    async def stored_resources(self, cluster: Name) -> Sequence[StoredResource]:
        """Every resource of which the cluster may hold objects, those of CRDs first. No resource with objects is missing."""
        ...

    async def delete_stored(
        self,
        cluster: Name,
        resource: StoredResource,
        namespace: str = "",
        *,
        settled: Collection[str] = (),
        holder: Holder | None = None,
    ) -> Remaining:
        """Delete all objects of a resource in a cluster or in one of its namespaces, whether or not it is served any more.

        Objects with finalizers are marked and left. Where nothing new can be created meanwhile, an answer of 0 says that nothing is left.

        Args:
            cluster: the logical cluster.
            resource: the resource.
            namespace: empty for all.
            settled: finalizers that need not be waited for. They include those that the kind puts on its objects itself.
            holder: the object that takes them along: nothing is deleted once it is gone, even if another one has its name.

        Raises:
            StatusError: 409 where the holder is gone.
        """
        ...

    async def remove_finalizer(
        self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, *, finalizer: str, uid: str
    ) -> None:
        """Remove the server's own finalizer from an object that is being deleted, and with the last one the object.

        The object need not be valid: damaged objects can be deleted. A missing object is not an error.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            namespace: empty for cluster-scoped objects.
            name: of the object.
            finalizer: in metadata, or for namespaces in spec.
            uid: of the object that is meant; another one of the same name is left alone.
        """
        ...

    async def recount_quota(self, cluster: Name, namespace: str, name: str) -> None:
        """Count anew what a ResourceQuota counts, and write the difference. A missing quota is not an error.

        Raises:
            StatusError: 503, the store could not be read or written.
        """
        ...
