"""`ClusterClient`: the API of one logical cluster, with typed objects; `ClusterReader`: lists and watches of one or all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, TypeVar, overload

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import FIELD_MANAGER, ApiResource, Client
from kcp_py.client.informer import Informer
from kcp_py.client.keys import Key
from kcp_py.client.models import decode, described, encode, is_model, source_of
from kcp_py.client.reflecting import PAGE, Selection
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.rest.patch import MERGE_PATCH

T = TypeVar("T")

Object = dict[str, Any]


class ObjectsChange(NamedTuple, Generic[T]):
    """A change that `ClusterReader.watch` shows."""

    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    cluster: Name
    obj: T
    """The object; where it was deleted, its last known state."""


class ClusterReader:
    """Lists and watches of one logical cluster, or of all clusters at once.

    A kind is a class that describes a resource (`kcp_py.client.models`), whose objects come as objects of that class, or a
    `GroupVersionResource`, whose objects are decoded JSON.
    """

    def __init__(self, client: Client, cluster: ClusterSelection) -> None:
        """Read with a client; `client.cluster(...)` makes one."""
        self.client = client
        """The client of all clusters."""
        self.selection = cluster

    @overload
    async def list(self, kind: type[T], *, namespace: str = "", label_selector: str = "", field_selector: str = "") -> Sequence[T]: ...

    @overload
    async def list(
        self, kind: GroupVersionResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Sequence[Object]: ...

    async def list(self, kind: Any, *, namespace: str = "", label_selector: str = "", field_selector: str = "") -> Sequence[Any]:
        """All objects of a kind; see `iterate` for kinds with very many."""
        found = self._pages(kind, namespace, label_selector, field_selector=field_selector)
        async with aclosing(found):
            return [obj async for obj in found]

    @overload
    def iterate(self, kind: type[T], *, namespace: str = "", label_selector: str = "", field_selector: str = "") -> AsyncIterator[T]: ...

    @overload
    def iterate(
        self, kind: GroupVersionResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Object]: ...

    def iterate(self, kind: Any, *, namespace: str = "", label_selector: str = "", field_selector: str = "") -> AsyncIterator[Any]:
        """The objects of a kind, read in pages.

        Raises:
            StatusError: 410 where reading takes longer than the server keeps the state.
        """
        return self._pages(kind, namespace, label_selector, field_selector=field_selector)

    async def _pages(self, kind: Any, namespace: str, label_selector: str, *, field_selector: str) -> AsyncGenerator[Any, None]:
        token = ""
        while True:
            page = await self.client.list(
                self.selection,
                _resource(kind),
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=PAGE,
                continue_token=token,
            )
            for obj in page.items:
                yield _typed(kind, obj)
            token = page.continue_token
            if not token:
                return

    @overload
    def watch(
        self, kind: type[T], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncGenerator[ObjectsChange[T], None]: ...

    @overload
    def watch(
        self, kind: GroupVersionResource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncGenerator[ObjectsChange[Object], None]: ...

    async def watch(
        self, kind: Any, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> AsyncGenerator[ObjectsChange[Any], None]:
        """The existing objects as ADDED, then every change, without an end: through ends of connections and restarts of the server.

        It keeps the objects in memory, to show changes that happened while no connection was open. An object that does not fit its class
        is an error (ValueError) of the reader. Close the generator to stop.
        """
        selection = Selection(self.selection, _resource(kind), namespace, label_selector, field_selector)
        async with aclosing(Informer(self.client, selection, managed_fields=True).changes()) as changes:
            async for change in changes:
                yield ObjectsChange(change.type, change.key.cluster, _typed(kind, change.obj))


class ClusterClient(ClusterReader):
    """The API of one logical cluster.

    ::

        team = client.cluster("team-a")
        ship = await team.get(Ship, "argo")
        ship.spec.crew = 50
        ship = await team.update(ship)

    Methods that take an object take a typed one, or decoded JSON with apiVersion and kind, and answer with the same. Where an object of a
    kind in namespaces names none, it is in `namespace`. Each method raises `StatusError`.
    """

    def __init__(self, client: Client, cluster: Name, *, namespace: str = "default", field_manager: str = FIELD_MANAGER) -> None:
        """Call a client for one cluster.

        Args:
            client: of all clusters.
            cluster: which.
            namespace: of objects that name none.
            field_manager: owns the fields that are written.
        """
        super().__init__(client, cluster)
        self.cluster = cluster
        self.namespace = namespace
        self.field_manager = field_manager

    @overload
    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T: ...

    @overload
    async def get(self, kind: GroupVersionResource, name: str, *, namespace: str = "") -> Object: ...

    async def get(self, kind: Any, name: str, *, namespace: str = "") -> Any:
        """An object.

        Raises:
            StatusError: 404.
        """
        where = await self._place(kind, namespace)
        return _typed(kind, await self.client.get(self.cluster, _resource(kind), where, name))

    @overload
    async def find(self, kind: type[T], name: str, *, namespace: str = "") -> T | None: ...

    @overload
    async def find(self, kind: GroupVersionResource, name: str, *, namespace: str = "") -> Object | None: ...

    async def find(self, kind: Any, name: str, *, namespace: str = "") -> Any:
        """An object; None where there is none."""
        try:
            return await self.get(kind, name, namespace=namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def create(self, obj: T, *, dry_run: bool = False) -> T:
        """Create an object; it as the server has stored it.

        Raises:
            StatusError: 409 for a name that is taken, 422.
        """
        resource, document = await self._document(obj, encode(obj) if is_model(obj) else obj)
        made = await self.client.create(self.cluster, resource.resource, document, dry_run=dry_run, field_manager=self.field_manager)
        return _same(obj, made)

    async def update(self, obj: T, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replace an object. Fields that its class does not know stay as they are; its resourceVersion is the optimistic lock.

        Raises:
            StatusError: 409 where the object has changed meanwhile, 404, 422.
        """
        resource, document = await self._document(obj, await self._complete(obj))
        made = await self.client.update(
            self.cluster, resource.resource, document, subresource=subresource, dry_run=dry_run, field_manager=self.field_manager
        )
        return _same(obj, made)

    async def update_status(self, obj: T, *, dry_run: bool = False) -> T:
        """Replace the status of an object."""
        return await self.update(obj, subresource="status", dry_run=dry_run)

    async def patch(self, obj: T, document: Any, *, patch_type: str = MERGE_PATCH, subresource: str = "", dry_run: bool = False) -> T:
        """Change an object by a patch, by default a merge patch; the object itself only says which.

        Raises:
            StatusError: 404, 409, 415, 422.
        """
        resource, place = await self._document(obj, _head(obj))
        metadata = place["metadata"]
        made = await self.client.patch(
            self.cluster,
            resource.resource,
            metadata.get("namespace", ""),
            metadata["name"],
            document=document,
            patch_type=patch_type,
            subresource=subresource,
            dry_run=dry_run,
            field_manager=self.field_manager,
        )
        return _same(obj, made)

    async def patch_status(self, obj: T, status: Mapping[str, Any]) -> T:
        """Change some fields of the status of an object; a field with None goes."""
        return await self.patch(obj, {"status": dict(status)}, subresource="status")

    async def apply(self, obj: T, *, force: bool = False, subresource: str = "", dry_run: bool = False) -> T:
        """Server-side apply: own the fields that are set, and give up those that an earlier apply has set.

        Of a Pydantic model these are the fields that were set, of a dataclass all that are not None. What only the server sets is left out.

        Raises:
            StatusError: 409 where another manager owns a field, unless `force` takes it over; 422.
        """
        resource, document = await self._document(obj, encode(obj, set_only=True) if is_model(obj) else obj)
        metadata = {name: value for name, value in document["metadata"].items() if name not in _SET_BY_SERVER}
        made = await self.client.apply(
            self.cluster,
            resource.resource,
            {**document, "metadata": metadata},
            field_manager=self.field_manager,
            force=force,
            subresource=subresource,
            dry_run=dry_run,
        )
        return _same(obj, made)

    @overload
    async def delete(
        self, kind: type | GroupVersionResource, name: str, *, namespace: str = "", propagation: str = "", missing_ok: bool = False
    ) -> None: ...

    @overload
    async def delete(self, kind: object, *, propagation: str = "", missing_ok: bool = False) -> None: ...

    async def delete(self, kind: Any, name: str = "", *, namespace: str = "", propagation: str = "", missing_ok: bool = False) -> None:
        """Delete an object by its kind and name, or a given object: exactly that one, by its uid.

        Args:
            kind: of the object, or the object.
            name: of the object.
            namespace: of the object.
            propagation: `Orphan`, `Foreground` or `Background`.
            missing_ok: an object that is not there is no error.

        Raises:
            StatusError: 404, 409 for another object of the name.
        """
        uid = ""
        if isinstance(kind, (type, GroupVersionResource)):
            resource, where = _resource(kind), await self._place(kind, namespace)
        else:
            found, document = await self._document(kind, _head(kind))
            metadata = document["metadata"]
            resource, where, name, uid = found.resource, metadata.get("namespace", ""), metadata["name"], metadata.get("uid") or ""
        try:
            await self.client.delete(self.cluster, resource, where, name, uid=uid, propagation=propagation)
        except StatusError as error:
            if not (missing_ok and error.code == 404):
                raise

    async def scale(self, kind: type | GroupVersionResource, name: str, replicas: int | None = None, *, namespace: str = "") -> int:
        """The number of replicas that an object asks for, through its subresource `scale`; with `replicas` set it first."""
        where, resource = await self._place(kind, namespace), _resource(kind)
        if replicas is None:
            found = await self.client.get(self.cluster, resource, where, name, subresource="scale")
        else:
            found = await self.client.patch(
                self.cluster,
                resource,
                where,
                name,
                document={"spec": {"replicas": replicas}},
                subresource="scale",
                field_manager=self.field_manager,
            )
        return int(found["spec"].get("replicas", 0))

    def key(self, obj: object) -> Key:
        """Where an object is: cluster, namespace, name."""
        metadata = _head(obj)["metadata"]
        return Key(self.cluster, metadata.get("namespace") or "", metadata["name"])

    async def _complete(self, obj: Any) -> Any:
        """The whole JSON of an object. Of a copy, what its class does not know is read from the server."""
        if not is_model(obj):
            return obj
        if source_of(obj) is not None:
            return encode(obj)
        metadata = _head(obj)["metadata"]
        if not metadata.get("resourceVersion"):
            return encode(obj)
        resource = described(type(obj))
        source = await self.client.get(self.cluster, resource.resource, metadata.get("namespace") or "", metadata["name"])
        merged = encode(obj, source=source)
        # The lock is that of the copy: a change in between is a conflict.
        merged["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        return merged

    async def _document(self, obj: Any, document: Any) -> tuple[ApiResource, dict[str, Any]]:
        """The resource of an object, and its JSON with its namespace."""
        resource = described(type(obj)) if is_model(obj) else await self._find(document)
        metadata = dict(document.get("metadata") or {})
        if resource.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self.namespace
        else:
            metadata.pop("namespace", None)
        return resource, {**document, "metadata": metadata}

    async def _find(self, document: Mapping[str, Any]) -> ApiResource:
        if not isinstance(document, Mapping):
            raise TypeError(f"{document!r} is neither decoded JSON nor an object whose class describes a resource")
        api_version, kind = document.get("apiVersion"), document.get("kind")
        if not api_version or not kind:
            raise errors.bad_request("the object has no apiVersion or no kind")
        found = await self.client.find_kind(self.cluster, api_version, kind)
        if found is None:
            raise StatusError(404, "NotFound", f'no matches for kind "{kind}" in version "{api_version}"')
        return found

    async def _place(self, kind: Any, namespace: str) -> str:
        """The namespace of an object of a kind."""
        if namespace:
            return namespace
        if is_model(kind):
            return self.namespace if described(kind).namespaced else ""
        resource: GroupVersionResource = kind
        found = await self.client.find_resource(self.cluster, resource.group_resource)
        if found is None:
            raise errors.unserved()
        return self.namespace if found.namespaced else ""


_SET_BY_SERVER = frozenset({"managedFields", "resourceVersion", "creationTimestamp", "generation", "uid", "deletionTimestamp"})


def _resource(kind: Any) -> GroupVersionResource:
    return kind if isinstance(kind, GroupVersionResource) else described(kind).resource


def _typed(kind: Any, obj: Object) -> Any:
    return obj if isinstance(kind, GroupVersionResource) else decode(kind, obj)


def _same(given: T, made: Object) -> T:
    """An answer in the form of the object that was given."""
    return decode(type(given), made) if is_model(given) else made  # type: ignore[return-value]


def _head(obj: Any) -> Mapping[str, Any]:
    """The JSON of an object, of which its metadata counts."""
    return encode(obj, set_only=True) if is_model(obj) else obj
