"""`RemoteClient`: the client of a server in another process, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from typing import Any, Final, Self
from urllib.parse import quote

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind, GroupVersionResource
from kcp_py.apimachinery.meta.options import FieldValidation
from kcp_py.client.contract import FIELD_MANAGER, ApiResource, KindSchema, ObjectList, WatchEvent
from kcp_py.client.discovery import DiscoveryCache
from kcp_py.client.paths import cluster_path, resource_path
from kcp_py.client.transport import Headers, Query, Transport, impersonation, status_error_of
from kcp_py.client.views import ClusterViews
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.rest.patch import APPLY_PATCH, MERGE_PATCH
from kcp_py.request.user import UserInfo

_PLAIN: Final = (("Accept", "application/json"),)
_METADATA: Final = (("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),)
_METADATA_LIST: Final = (("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),)
_DISCOVERY: Final = (("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),)
_BOOKMARKED_SILENCE_SECONDS: Final = 180.0
"""A watch with bookmarks that shows nothing for so long has lost its server, which sends a bookmark each minute."""


class RemoteClient(ClusterViews):
    """A `Client` of the server that a kubeconfig names. It is an async context manager, which closes its connections.

    Failures to reach the server are a `StatusError` 503 with the reason ServiceUnavailable.
    """

    def __init__(self, transport: Transport, *, user: UserInfo | None = None) -> None:
        """Prepare; nothing is connected before the first request.

        Args:
            transport: to the server.
            user: to act as; None for the user of the credentials.
        """
        self.transport = transport
        self._user: Headers = impersonation(user.name, user.uid, user.groups, user.extra) if user is not None else ()
        self._discovery = DiscoveryCache(self._fetch_discovery)

    @classmethod
    def of_kubeconfig(cls, path: str | None = None, context: str | None = None) -> Self:
        """The client of one context of a kubeconfig.

        Args:
            path: the file; None for the first that exists of those in `KUBECONFIG`, then `.kcp/admin.kubeconfig`.
            context: None for the current one.

        Raises:
            KubeconfigError: the file or a credential in it cannot be used.
        """
        return cls(Transport(KubeconfigContext.load(path, context)))

    @classmethod
    def in_cluster(cls) -> Self:
        """The client of a pod, for the API server of its cluster, with the token and the authority of its service account.

        Raises:
            KubeconfigError: the program does not run in a pod.
        """
        return cls(Transport(KubeconfigContext.in_cluster()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.transport.aclose()

    def acting_as(self, user: UserInfo) -> Self:
        """`Client.acting_as`. What clusters serve is read as the user of the credentials."""
        other = copy(self)
        other._user = impersonation(user.name, user.uid, user.groups, user.extra)  # noqa: SLF001 - a copy of this object
        return other

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
        """`Client.get`."""
        path = resource_path(cluster, resource, namespace, name, subresource=subresource)
        found: dict[str, Any] = await self._send("GET", path, headers=_METADATA if metadata_only else _PLAIN)
        return found

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
        """`Client.list`."""
        query = _given(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit or ""),
            resourceVersion=resource_version,
            resourceVersionMatch=resource_version_match,
            **{"continue": continue_token},
        )
        path = resource_path(cluster, resource, namespace)
        page = await self._send("GET", path, query=query, headers=_METADATA_LIST if metadata_only else _PLAIN)
        items, metadata = page.get("items") or [], page["metadata"]
        if not metadata_only:
            # Items of a list of a built-in kind leave out what the list says: the contract has it in each object.
            kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            items = [item if "kind" in item else {**kind, **item} for item in items]
        return ObjectList(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""), metadata.get("remainingItemCount"))

    async def watch(
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
        """`Client.watch`. A connection that breaks ends the generator as the end of the watch does."""
        query = _given(
            watch="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks="true" if bookmarks else "",
            timeoutSeconds=str(timeout_seconds or ""),
        )
        headers = (*self._user, *(_METADATA if metadata_only else _PLAIN))
        silence = _BOOKMARKED_SILENCE_SECONDS if bookmarks else None
        path = resource_path(cluster, resource, namespace)
        async with self.transport.stream(path, query=query, headers=headers, silence=silence) as lines, aclosing(lines):
            async for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise status_error_of(event["object"])
                yield WatchEvent(event["type"], event["object"])

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
        """`Client.create`."""
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        path = resource_path(cluster, resource, namespace, name, subresource=subresource)
        body = obj if subresource else await self._with_kind(cluster, resource, obj)
        return await self._write("POST", path, body, query=_writing(field_manager, field_validation, dry_run=dry_run))

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
        """`Client.update`."""
        metadata = obj["metadata"]
        path = resource_path(cluster, resource, metadata.get("namespace", ""), metadata["name"], subresource=subresource)
        body = obj if subresource == "scale" else await self._with_kind(cluster, resource, obj)
        return await self._write("PUT", path, body, query=_writing(field_manager, field_validation, dry_run=dry_run))

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
        """`Client.patch`."""
        path = resource_path(cluster, resource, namespace, name, subresource=subresource)
        query = _writing(field_manager, field_validation, dry_run=dry_run)
        return await self._write("PATCH", path, document, query=query, media=patch_type)

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
        """`Client.apply`."""
        metadata = configuration["metadata"]
        path = resource_path(cluster, resource, metadata.get("namespace", ""), metadata["name"], subresource=subresource)
        query = (*_writing(field_manager, field_validation, dry_run=dry_run), ("force", "true" if force else "false"))
        return await self._write("PATCH", path, configuration, query=query, media=APPLY_PATCH)

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
        """`Client.delete`."""
        preconditions = dict(_given(uid=uid, resourceVersion=resource_version))
        options = _deletion(propagation, grace, dry_run=dry_run)
        if preconditions:
            options["preconditions"] = preconditions
        await self._write("DELETE", resource_path(cluster, resource, namespace, name), options)

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
        """`Client.delete_collection`."""
        query = _given(labelSelector=label_selector, fieldSelector=field_selector)
        options = _deletion(propagation, grace, dry_run=dry_run)
        await self._write("DELETE", resource_path(cluster, resource, namespace), options, query=query)

    async def find_kind(self, cluster: Name, api_version: str, kind: str) -> ApiResource | None:
        """`Client.find_kind`, from discovery documents that are a few seconds old at the most."""
        group, _, version = api_version.rpartition("/")
        return await self._discovery.find_kind(cluster, GroupVersionKind(group, version, kind))

    async def find_resource(self, cluster: Name, resource: GroupResource) -> ApiResource | None:
        """`Client.find_resource`, from discovery documents that are a few seconds old at the most."""
        return await self._discovery.find_resource(cluster, resource)

    async def resources(self, cluster: Name) -> Sequence[ApiResource]:
        """`Client.resources`, read anew."""
        return await self._discovery.resources(cluster)

    async def schema(self, cluster: Name, kind: GroupVersionKind) -> KindSchema | None:
        """`Client.schema`, from the OpenAPI document of the version."""
        group = f"apis/{quote(kind.group, safe='')}" if kind.group else "api"
        path = f"{cluster_path(cluster)}/openapi/v3/{group}/{quote(kind.version, safe='')}"
        try:
            document = await self._send("GET", path)
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        models = document["components"]["schemas"]
        for model in models.values():
            for one in model.get("x-kubernetes-group-version-kind") or ():
                if (one["group"], one["version"], one["kind"]) == kind:
                    return KindSchema(model, models)
        return None

    async def _fetch_discovery(self, cluster: Name, path: str) -> Any:
        return await self.transport.request("GET", cluster_path(cluster) + path, headers=_DISCOVERY)

    async def _with_kind(self, cluster: Name, resource: GroupVersionResource, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object with apiVersion and kind, which servers need to read a custom resource."""
        if "kind" in obj and "apiVersion" in obj:
            return obj
        found = await self.find_resource(cluster, resource.group_resource)
        return obj if found is None else {"apiVersion": found._replace(resource=resource).api_version, "kind": found.kind, **obj}

    async def _write(self, method: str, path: str, document: Any, *, query: Query = (), media: str = "application/json") -> dict[str, Any]:
        try:
            body = orjson.dumps(document)
        except TypeError as error:
            raise errors.bad_request(f"the object is not JSON: {error}") from None
        written: dict[str, Any] = await self._send(method, path, query=query, headers=(*_PLAIN, ("Content-Type", media)), body=body)
        return written

    async def _send(self, method: str, path: str, *, query: Query = (), headers: Headers = (), body: bytes | None = None) -> Any:
        return await self.transport.request(method, path, query=query, headers=(*self._user, *headers), body=body)


def _given(**parameters: str) -> Query:
    """The query parameters that have a value."""
    return tuple((name, value) for name, value in parameters.items() if value)


def _writing(field_manager: str, field_validation: FieldValidation, *, dry_run: bool) -> Query:
    return _given(fieldManager=field_manager, fieldValidation=field_validation, dryRun="All" if dry_run else "")


def _deletion(propagation: str, grace: int | None, *, dry_run: bool) -> dict[str, Any]:
    """DeleteOptions as a body."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if dry_run:
        options["dryRun"] = ["All"]
    return options
