"""`BackedStorage`: a writable resource whose objects are those of another resource, translated by two functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import MappingProxyType
from typing import ClassVar, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.options import DeleteOptions, ListOptions, Preconditions
from kcp_py.client.contract import FIELD_MANAGER, Client
from kcp_py.library.backedforms import backing_metadata, facing_error, facing_metadata
from kcp_py.logicalcluster import Name
from kcp_py.registry.rest.storage import Object, ObjectEvent, ObjectsAt, ReadRequest, RestStorage, bookmark
from kcp_py.registry.writerequest import Resolved, WriteRequest

_ATTEMPTS: Final = 6
"""Of an update without a resourceVersion whose object changes meanwhile."""


class BackedStorage(RestStorage):
    """Serves the objects of a backing resource in another form: end users need permissions for the facing resource alone.

    ::

        class Databases(BackedStorage):
            def to_facing(self, backing):
                return {"spec": {"plan": PLAN_OF[backing["spec"]["gigabytes"]]}}

            def to_backing(self, facing, old):
                return {**(old or {}), "spec": {"gigabytes": PLANS[facing["spec"]["plan"]]}}


        Databases(lambda: control_plane.client, GroupVersionResource("admin.example.com", "v1", "instances"))

    Both resources have the same scope. Facing objects have the names, namespaces, uids, resourceVersions and times of the backing ones, so
    that optimistic locks, preconditions, watches and waiting for deletions work. What belongs to facing objects alone is stored in the
    annotation `facing.kcp.io/state` of the backing object: the owners of fields (`managedFields`), finalizers and owner references that
    were set through the facing resource, and the configuration that `kubectl apply` keeps.
    """

    versioned: ClassVar[bool] = True
    deletes_collections: ClassVar[bool] = True

    def __init__(
        self, client: Callable[[], Client], backing: GroupVersionResource, *, fields: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Serve a resource from another one.

        Args:
            client: whose permissions all requests have; called for each request.
            backing: of the control plane itself, or of any other server.
            fields: of the backing resource -> of the facing one, in the errors of the backing resource: `{"spec.size": "spec.plan"}`.
        """
        self._client = client
        self._resource = backing
        self._fields = fields

    @abstractmethod
    def to_facing(self, backing: Object) -> Object:
        """The facing object of a backing one: everything but the metadata.

        Where the result has `metadata`, its labels and annotations are shown instead of all labels and annotations. Those that are not
        shown are kept by updates, with their values.

        Args:
            backing: the object; the callee may change it.
        """

    @abstractmethod
    def to_backing(self, facing: Object, old: Object | None) -> Object:
        """The backing object of a facing one: everything but the metadata.

        Where the result has `metadata`, labels and annotations in it that `old` does not have are added to those of the facing object.

        Args:
            facing: the object as the client wants it, in accordance with the schema and with `validate`.
            old: the backing object before; None for a create. Fields that clients do not see are taken from here.

        Raises:
            StatusError: the refusal of the write.
        """

    async def validate(self, request: WriteRequest, obj: Object, old: Object | None) -> Sequence[FieldError]:
        """The faults of a facing object beyond its schema; with any, the answer is 422.

        Args:
            request: who writes.
            obj: the object as the client wants it.
            old: the facing object before; None for a create.
        """
        del request, obj, old
        return ()

    async def get(self, request: ReadRequest) -> Object:
        """`RestStorage.get`."""
        return self._facing(await self._read(request.target), request.target)

    async def list(self, request: ReadRequest) -> ObjectsAt:
        """`RestStorage.list`."""
        found, version = await self._list(request, "")
        return ObjectsAt(found, int(version))

    def common_version(self, versions: Mapping[Name, int]) -> int:
        """`RestStorage.common_version`: that of the first read. What has changed since then is told once more."""
        return min(versions.values(), default=0)

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        """`RestStorage.watch`."""
        options, target = request.options, request.target
        tracked = _selects(options)
        known: dict[tuple[str, str], Object] = {}
        after = options.resource_version
        if begins := bool(options.send_initial_events or after in {"", "0"}):
            after = ""
        if begins or tracked:
            # Without the state at the resourceVersion, nothing tells whether an object that ceases to match has been shown.
            found, after = await self._list(request, after)
            for obj in found:
                if tracked:
                    known[_place(obj)] = obj
                if begins:
                    yield ObjectEvent("ADDED", dict(obj))
            if options.send_initial_events and options.allow_watch_bookmarks:
                yield bookmark(int(after), initial_events_end=True)
        cluster, selector = target.cluster_state.name, _name_selector(options)
        with self._errors(target):
            events = self._client().watch(
                cluster, self._resource, target.namespace, resource_version=after, field_selector=selector, bookmarks=True
            )
            async with aclosing(events):
                async for event in events:
                    if event.type == "BOOKMARK":
                        if options.allow_watch_bookmarks:
                            yield bookmark(int(event.obj["metadata"]["resourceVersion"]))
                        continue
                    obj = self._facing(event.obj, target)
                    previous = known.get(_place(obj)) if tracked else None if event.type == "ADDED" else obj
                    if tracked:
                        known[_place(obj)] = obj
                        if event.type == "DELETED":
                            del known[_place(obj)]
                    yield ObjectEvent(event.type, dict(obj), previous)

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """`RestStorage.create`."""
        target = request.target
        await self._check(request, obj, None)
        with self._errors(target):
            made = await self._client().create(
                target.cluster_state.name,
                self._resource,
                self._backing(obj, None, target),
                dry_run=request.dry_run,
                field_manager=_manager(request),
            )
        return self._facing(made, target)

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        """`RestStorage.update`."""
        target, metadata = request.target, obj["metadata"]
        version, uid = metadata.get("resourceVersion") or "", metadata.get("uid") or ""
        attempt = 0
        while True:
            attempt += 1
            old = await self._read(target)
            present = old["metadata"]
            if version not in {"", "0", present["resourceVersion"]}:
                raise errors.conflict(target.resource.group_resource, target.name, errors.OBJECT_MODIFIED)
            if uid not in {"", present["uid"]}:
                detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present['uid']}"
                raise errors.conflict(target.resource.group_resource, target.name, detail)
            before = self._facing(_copy(old), target)
            await self._check(request, obj, before)
            backing = self._backing(obj, old, target, shown=before["metadata"])
            try:
                with self._errors(target):
                    made = await self._client().update(
                        target.cluster_state.name, self._resource, backing, dry_run=request.dry_run, field_manager=_manager(request)
                    )
            except StatusError as error:
                # The read was that of the server: a client that names no version takes any.
                if error.reason != "Conflict" or version not in {"", "0"} or attempt == _ATTEMPTS:
                    raise
                continue
            return self._facing(made, target)

    async def delete(self, request: WriteRequest) -> Object | None:
        """`RestStorage.delete`: the object while finalizers hold it."""
        target, options = request.target, request.options
        assert isinstance(options, DeleteOptions), "a deletion has its own options"
        conditions = options.preconditions or Preconditions()
        policy = options.propagation_policy
        if policy is None and options.orphan_dependents is not None:
            policy = "Orphan" if options.orphan_dependents else "Background"
        with self._errors(target):
            await self._client().delete(
                target.cluster_state.name,
                self._resource,
                target.namespace,
                target.name,
                uid=conditions.uid or "",
                resource_version=conditions.resource_version or "",
                propagation=policy or "",
                grace=options.grace_period_seconds,
                dry_run=request.dry_run,
            )
        try:
            left = await self._read(target)
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        return self._facing(left, target) if left["metadata"].get("deletionTimestamp") else None

    async def _read(self, target: Resolved) -> Object:
        """The backing object.

        Raises:
            StatusError: 404.
        """
        with self._errors(target):
            return await self._client().get(target.cluster_state.name, self._resource, target.namespace, target.name)

    async def _list(self, request: ReadRequest, version: str) -> tuple[Sequence[Object], str]:
        """The facing objects of a collection, and the resourceVersion behind which a watch goes on.

        Args:
            request: the list or the watch.
            version: the state that is read; empty for the latest.
        """
        target, turns = request.target, TimeSlice()
        with self._errors(target):
            listed = await self._client().list(
                target.cluster_state.name,
                self._resource,
                target.namespace,
                field_selector=_name_selector(request.options),
                resource_version=version,
                resource_version_match="Exact" if version else "",
            )
        found: list[Object] = []
        for item in listed.items:
            found.append(self._facing(item, target))
            await turns.yield_if_due()
        return found, listed.resource_version

    async def _check(self, request: WriteRequest, obj: Object, old: Object | None) -> None:
        """Validate a facing object.

        Raises:
            StatusError: 422.
        """
        resource = request.target.resource
        schema, large = resource.schema, request.size > Inline.TRANSFORM
        problems = await offload(schema.validate, obj, old) if large else schema.validate(obj, old)
        problems = problems or list(await self.validate(request, obj, old))
        if problems:
            raise errors.invalid(resource.group_version_kind.group_kind, obj["metadata"].get("name", ""), problems)

    def _facing(self, backing: Object, target: Resolved) -> Object:
        """The facing form of a backing object, which is used up."""
        metadata = backing["metadata"]
        made = dict(self.to_facing({**backing, "metadata": _copy(metadata)}))
        shown = made.pop("metadata", metadata)
        return _content(made) | {"metadata": facing_metadata(metadata, shown, str(target.resource.group_resource))}

    def _backing(self, facing: Object, old: Object | None, target: Resolved, *, shown: Object | None = None) -> Object:
        """The backing form of a facing object.

        Args:
            facing: the object as the client wants it.
            old: the backing object before; its uid and its resourceVersion are those of the write.
            target: the facing resource.
            shown: the metadata of the facing object before.
        """
        made = dict(self.to_backing(_copy(facing), _copy(old) if old is not None else None))
        added, before = made.pop("metadata", None) or {}, old["metadata"] if old is not None else {}
        resource = str(target.resource.group_resource)
        metadata = backing_metadata(facing["metadata"], before, resource, shown=shown or {}, added=added)
        if target.resource.namespaced:
            metadata["namespace"] = target.namespace
        return _content(made) | {"metadata": metadata}

    @contextmanager
    def _errors(self, target: Resolved) -> Iterator[None]:
        """Errors of the backing resource as errors of the facing one."""
        try:
            yield
        except StatusError as error:
            raise facing_error(error, self._resource, target.resource, self._fields) from error


def _content(obj: Object) -> Object:
    """An object without its type, which is not that of the other resource, and without its metadata."""
    return {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}


def _copy(obj: Object) -> Object:
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied


def _manager(request: WriteRequest) -> str:
    return request.manager.name if request.manager is not None else FIELD_MANAGER


def _place(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _name_selector(options: ListOptions) -> str:
    """Names are the same in both resources. Labels and fields need not be, and the server selects by them."""
    name = options.field_selector.requires_exact_match("metadata.name")
    return f"metadata.name={name}" if name else ""


def _selects(options: ListOptions) -> bool:
    """Whether an object can begin or cease to match while it exists."""
    by_name = bool(_name_selector(options)) and len(options.field_selector.requirements) == 1
    return not (options.label_selector.empty and (options.field_selector.empty or by_name))
