"""`Client`: the operations, and the values that go in and out.

Objects are decoded JSON as an HTTP client gets it: with `metadata.resourceVersion` and the annotation `kcp.io/cluster`. Every method raises
`StatusError` where an HTTP client would get a Status.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.catalog.compilation import HeldNames
from kcp_py.registry.rest.patch import MERGE_PATCH
from kcp_py.registry.store.collection import Remaining
from kcp_py.request.user import UserInfo


class ObjectList(NamedTuple):
    """A consistent list."""

    items: Sequence[dict[str, Any]]
    resource_version: str
    """Where a watch goes on from."""


class WatchEvent(NamedTuple):
    """One change as a watch tells it."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    obj: dict[str, Any]


class ObjectName(NamedTuple):
    """Where an object is, and its version."""

    cluster: Name
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    resource_version: str


class Change(NamedTuple):
    """What became of one object."""

    cluster: Name
    namespace: str
    name: str
    value: bytes | None
    """The object as JSON, in its storage version and without resourceVersion; None where it is gone."""


class ObjectChange(NamedTuple):
    """What became of one object of whatever resource; or an object that is there, with nothing before it."""

    cluster: Name
    resource: GroupResource
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    value: bytes | None
    """As in `Change`."""
    previous: bytes | None
    """The object before; None where it was not there."""


Concerned = Callable[[GroupResource, bytes | None, bytes | None], bool]
"""(resource, value, previous) -> whether somebody wants to be told: a cheap look at the bytes."""


class KnownKind(NamedTuple):
    """Where the objects of a kind are found."""

    resource: GroupVersionResource
    namespaced: bool


class Holder(NamedTuple):
    """The cluster-scoped object whose end takes other objects along: a namespace, a CRD or a LogicalCluster."""

    resource: GroupVersionResource
    name: str
    uid: str


class StoredResource(NamedTuple):
    """A resource of which a cluster may hold objects."""

    group_resource: GroupResource
    custom: bool
    """Whether it comes from a CRD of the cluster."""
    namespaced: bool | None
    """None where that is not known without reading the CRD."""


class Client(Protocol):
    """The API of all logical clusters, for a privileged caller."""

    def acting_as(self, user: UserInfo) -> Client:
        """The same API for another user, as admission and audit see it."""
        ...

    async def get(self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str) -> dict[str, Any]:
        """One object.

        Raises:
            StatusError: 404.
        """
        ...

    async def list(self, cluster: ClusterSelection, resource: GroupVersionResource, namespace: str = "") -> ObjectList:
        """The objects of one cluster, or of all. Large lists are held in memory as a whole: prefer `changes` or `names` where they do."""
        ...

    async def names(self, cluster: Name, resource: GroupVersionResource) -> Sequence[ObjectName]:
        """Which objects there are and in what version, without reading them."""
        ...

    async def held_names(self, cluster: Name, group: str) -> Sequence[HeldNames]:
        """The names that the CustomResourceDefinitions of a group hold, without reading those that are known."""
        ...

    async def create(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in the namespace that its metadata names.

        Raises:
            StatusError: 409, 422, 403 in what terminates.
        """
        ...

    async def update(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object; a resourceVersion in its metadata is the optimistic lock.

        Raises:
            StatusError: 404, 409, 422.
        """
        ...

    async def update_status(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the status of an object, and nothing else."""
        ...

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
        """Change an object, its status or its Scale.

        Args:
            cluster: which.
            resource: which.
            namespace: empty for cluster-scoped objects.
            name: which.
            document: the patch as JSON: an object for merge patches, a list for a JSON patch.
            patch_type: its media type, see `registry.rest.patch`.
            subresource: `status`, `scale` or empty.

        Raises:
            StatusError: 404, 409, 415, 422.
        """
        ...

    async def apply(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        configuration: Mapping[str, Any],
        *,
        field_manager: str = "kcp-py",
        force: bool = False,
        subresource: str = "",
    ) -> dict[str, Any]:
        """Server-side apply.

        Args:
            cluster: which.
            resource: which.
            configuration: with apiVersion, kind, name and namespace; what it leaves out the manager does not own any more.
            field_manager: who owns the fields.
            force: whether fields of other managers are taken over.
            subresource: `status` or empty.

        Raises:
            StatusError: 409 for conflicts, 422.
        """
        ...

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
        """Delete an object, or mark it while finalizers remain.

        Args:
            cluster: which.
            resource: which.
            namespace: empty for cluster-scoped objects.
            name: which.
            uid: precondition; empty for none.
            resource_version: precondition; empty for none.
            propagation: `Orphan`, `Foreground`, `Background`, or empty for the kind's default.
            grace: seconds until the deletion takes effect, of kinds that know such a time; None for the kind's default.

        Raises:
            StatusError: 404, 403, 409 for a failed precondition.
        """
        ...

    def watch(self, cluster: ClusterSelection, resource: GroupVersionResource, resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """Every change after a resourceVersion. The generator ends when the server ends the watch: list again.

        Raises:
            StatusError: 410 Expired where changes are no longer known: list again.
        """
        ...

    def changes(self, resource: GroupVersionResource, *, wanted: Callable[[bytes], bool]) -> AsyncGenerator[Change, None]:
        """What controllers of many clusters live on: one resource in all of them, in bounded memory.

        First of all comes, live, every change from now on; in between, at leisure, every object that is there already and for which
        `wanted` holds. So an object may come twice. The generator ends when the server ends the watch: ask again.

        Args:
            resource: which.
            wanted: a cheap look at an object's bytes, applied to what is there already and not to changes.
        """
        ...

    def on_removal(self, callback: Callable[[Name], None]) -> None:
        """Have a function called with the cluster whenever an object of any kind is removed in one.

        A hint for those who wait for objects to go: an implementation that does not see removals calls nothing. Must not block or raise.
        """
        ...

    def observe(self, observer: Callable[[ObjectChange], None], *, concerned: Concerned, missed: Callable[[], None]) -> None:
        """Have a function called with every change of every object in every cluster, in the order in which they happened.

        Args:
            observer: must not block or raise. It is called after the resources that a cluster serves have followed the change.
            concerned: which changes it is called with.
            missed: called when changes may have been missed.
        """
        ...

    def stored_objects(
        self, cluster: Name | None, *, concerned: Concerned, resource: GroupResource | None = None, limit: int = 0
    ) -> AsyncGenerator[ObjectChange, None]:
        """Every object that is there, at leisure. At its end observers have been told of all that happened up to what was read.

        Args:
            cluster: None for all clusters.
            concerned: which objects are told of; all that it is asked have no previous value.
            resource: only this one, of one cluster.
            limit: how many objects are looked at, at the most and for each resource; 0 for all.
        """
        ...

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> KnownKind | None:
        """The resource of a kind in exactly this version, as the cluster serves it; None where it does not."""
        ...

    async def served_version(self, cluster: Name, resource: GroupResource) -> GroupVersionResource | None:
        """A version in which a resource is served, the stored one if it is; None where it is not served."""
        ...

    async def get_metadata(self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str) -> dict[str, Any]:
        """One object's apiVersion (as stored), kind and metadata with its resourceVersion.

        Raises:
            StatusError: 404.
        """
        ...

    async def stored_resources(self, cluster: Name) -> Sequence[StoredResource]:
        """Every resource of which the cluster may hold objects, those of CRDs first: nothing that is there is missing."""
        ...

    async def delete_collection(
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
            cluster: which.
            resource: which.
            namespace: empty for all.
            settled: finalizers that need not be waited for. They include those that the kind puts on its objects itself.
            holder: what the objects go with: nothing is deleted once it is gone, even if there is another one of its name.

        Raises:
            StatusError: 409 where the holder is gone.
        """
        ...

    async def remove_finalizer(
        self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, *, finalizer: str, uid: str
    ) -> None:
        """Take the server's own finalizer from an object that is being deleted, and with the last one the object. What is gone is no error.

        Args:
            cluster: which.
            resource: which.
            namespace: empty for cluster-scoped objects.
            name: which.
            finalizer: in metadata, or for namespaces in spec.
            uid: of the object that is meant; another one of the same name is left alone.
        """
        ...
