"""`Client`: the API of all logical clusters as HTTP can carry it, and the values that go in and out.

Objects are decoded JSON as an HTTP client gets it: with `metadata.resourceVersion` and the annotation `kcp.io/cluster`. Options have the
names, the defaults and the meaning of the query parameters of the Kubernetes API. Every method raises `StatusError` where an HTTP client
would get a Status. What only the process that has the store can see is in `client.tap`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import FieldValidation
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.rest.patch import MERGE_PATCH
from kcp_py.request.user import UserInfo

FIELD_MANAGER: Final = "kcp-py"
"""Owns the fields that a client writes, unless the caller names another manager."""


class ObjectList(NamedTuple):
    """A list, or one page of it."""

    items: Sequence[dict[str, Any]]
    resource_version: str
    """A watch that begins here misses nothing."""
    continue_token: str = ""
    """Asks for the next page; empty on the last one."""
    remaining: int | None = None
    """Objects on the pages that follow; None where the server does not count them."""


class WatchEvent(NamedTuple):
    """One change that a watch shows."""

    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK` where bookmarks are asked for."""
    obj: dict[str, Any]
    """The object; of a BOOKMARK its `metadata.resourceVersion` alone counts."""


class ApiResource(NamedTuple):
    """A resource as a cluster serves it."""

    resource: GroupVersionResource
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: Sequence[str] = ()

    @property
    def api_version(self) -> str:
        """Of its objects: `v1` or `group/version`."""
        return f"{self.resource.group}/{self.resource.version}" if self.resource.group else self.resource.version


class KindSchema(NamedTuple):
    """The schema of a kind as OpenAPI v3 publishes it. Shared: do not change it."""

    document: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]]
    """What a `$ref` in the document or in a model stands for, by the last part of the reference."""


class Client(Protocol):
    """The API of all logical clusters, for one user.

    The order of parameters is always cluster, resource, namespace, name. The namespace is empty for cluster-scoped resources, and in lists,
    watches and deletions of collections for all namespaces.
    """

    def acting_as(self, user: UserInfo) -> Client:
        """This API as another user, for authorization, admission and audit. The caller must be allowed to impersonate it."""
        ...

    async def get(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        metadata_only: bool = False,
    ) -> dict[str, Any]:
        """One object, or a subresource of it.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            namespace: empty for cluster-scoped resources.
            name: of the object.
            subresource: `status`, `scale`, ...; empty for the object itself.
            metadata_only: answer with a `PartialObjectMetadata` of `meta.k8s.io/v1`.

        Raises:
            StatusError: 404.
        """
        ...

    async def list(
        self,
        cluster: ClusterSelection,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """The objects of one cluster, or of all clusters.

        Args:
            cluster: one cluster or `WILDCARD`.
            resource: the resource and its version.
            namespace: empty for all.
            label_selector: such as `app=web,tier in (a,b)`.
            field_selector: such as `metadata.name=x`.
            limit: objects of a page at the most; 0 for the whole list, which is held in memory.
            continue_token: of the page before.
            resource_version: see `resource_version_match`; empty for the latest state.
            resource_version_match: `Exact`, `NotOlderThan` or empty.
            metadata_only: items are `PartialObjectMetadata`.

        Raises:
            StatusError: 400 for a selector or a token that cannot be read, 404 for an unserved resource, 410 for a token or a
                resourceVersion whose state is no longer known.
        """
        ...

    def watch(
        self,
        cluster: ClusterSelection,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
        timeout_seconds: int | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Every change after a resourceVersion.

        The generator ends when the server ends the watch, which it does from time to time: watch again from the resourceVersion of the last
        event. Close the generator to stop the watch.

        Args:
            cluster: one cluster or `WILDCARD`.
            resource: the resource and its version.
            namespace: empty for all.
            resource_version: of a list, an object or an event.
            label_selector: as in `list`; an object that begins to match is ADDED, one that ceases to match is DELETED.
            field_selector: as in `list`.
            bookmarks: show BOOKMARK events: they move the resourceVersion on where nothing else changes.
            timeout_seconds: after which the server ends the watch; None for the server's choice.
            metadata_only: objects are `PartialObjectMetadata`.

        Raises:
            StatusError: 410 where changes are no longer known: list again.
        """
        ...

    async def create(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        obj: Mapping[str, Any],
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """Create an object in the namespace that its metadata names, or post to a subresource.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            obj: the object. The client adds apiVersion and kind where they are missing.
            name: of the object whose subresource is posted to.
            subresource: such as `eviction`; empty to create an object.
            dry_run: do all but store.
            field_manager: owns the fields that are set.
            field_validation: what happens to unknown and repeated fields: `Ignore`, `Warn` or `Strict`.

        Raises:
            StatusError: 409 for a name that is taken, 422, 403 in a terminating namespace.
        """
        ...

    async def update(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """Replace an object or a subresource of it; a resourceVersion in its metadata is the optimistic lock, a uid a precondition.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            obj: with name and namespace in its metadata.
            subresource: `status`, `scale`, ...; empty for the object itself.
            dry_run: do all but store.
            field_manager: owns the fields that change.
            field_validation: as in `create`.

        Raises:
            StatusError: 404, 409, 422.
        """
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
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """Change an object or a subresource of it.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            namespace: empty for cluster-scoped resources.
            name: of the object.
            document: the patch as JSON: an object for merge patches, a list for a JSON patch.
            patch_type: its media type, see `registry.rest.patch`.
            subresource: `status`, `scale`, ...; empty for the object itself.
            dry_run: do all but store.
            field_manager: owns the fields that change.
            field_validation: as in `create`.

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
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "Ignore",
    ) -> dict[str, Any]:
        """Server-side apply.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            configuration: with apiVersion, kind, name and namespace. A field that it leaves out loses the manager as its owner.
            field_manager: owns the fields of the configuration.
            force: take over fields of other managers.
            subresource: `status` or empty.
            dry_run: do all but store.
            field_validation: as in `create`.

        Raises:
            StatusError: 409 with one cause for each field of another manager, 422.
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
        dry_run: bool = False,
    ) -> None:
        """Delete an object, or mark it while finalizers remain.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            namespace: empty for cluster-scoped resources.
            name: of the object.
            uid: precondition; empty for none.
            resource_version: precondition; empty for none.
            propagation: `Orphan`, `Foreground`, `Background`, or empty for the default of the kind.
            grace: seconds until the deletion takes effect, of kinds that have such a time; None for the default of the kind.
            dry_run: do all but store.

        Raises:
            StatusError: 404, 403, 409 for a failed precondition.
        """
        ...

    async def delete_collection(
        self,
        cluster: Name,
        resource: GroupVersionResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a collection that the selectors choose; objects with finalizers are marked and stay.

        Args:
            cluster: the logical cluster.
            resource: the resource and its version.
            namespace: whose objects; empty for cluster-scoped resources.
            label_selector: as in `list`.
            field_selector: as in `list`.
            propagation: as in `delete`.
            grace: as in `delete`.
            dry_run: do all but store.

        Raises:
            StatusError: the first refusal. Objects that were deleted before stay deleted.
        """
        ...

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> ApiResource | None:
        """The resource of a kind in exactly this version, as the cluster serves it; None where it does not."""
        ...

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ApiResource | None:
        """A resource in one of the versions in which the cluster serves it; None where it does not serve it."""
        ...

    async def resources(self, cluster: Name) -> Sequence[ApiResource]:
        """All resources that discovery of a cluster lists, each in all its versions, without subresources.

        Raises:
            StatusError: they cannot be read.
        """
        ...

    async def schema(self, cluster: Name, kind: GroupVersionKind) -> KindSchema | None:
        """The schema of a kind; None where the cluster does not serve it.

        Raises:
            StatusError: it cannot be read.
        """
        ...
