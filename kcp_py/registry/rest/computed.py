"""`ComputedObjects`: what the server does around a `RestStorage` that holds no stored objects.

The storage is asked about one cluster at a time and gives what it has. Selectors, admission, reads over all clusters and the fields that
the server adds to answers are the same for all of them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple
from weakref import finalize

import orjson
import structlog

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors, fielderrors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import CreateOptions, ListOptions
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Operation, attributes_of
from kcp_py.registry.rest.answered import HIDDEN, answered, with_kind
from kcp_py.registry.rest.apply import Configuration, applied, part_configuration, read_configuration
from kcp_py.registry.rest.computeddeletion import DeletedComputedObjects
from kcp_py.registry.rest.computedwatch import ClusterWatch, ComputedWatch
from kcp_py.registry.rest.conform import conform
from kcp_py.registry.rest.create import check_namespace
from kcp_py.registry.rest.items import left_out_warnings
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.rest.listing import Listing
from kcp_py.registry.rest.pages import Pages
from kcp_py.registry.rest.patch import APPLY_PATCH, Patch, accepted, patched
from kcp_py.registry.rest.registry import Registry
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.rest.storage import Object, ObjectsAt, ReadRequest, RestStorage
from kcp_py.registry.rest.update import check_identity
from kcp_py.registry.rest.wildcardwatch import WildcardWatch
from kcp_py.registry.store.access import translate
from kcp_py.registry.store.ownership import note_write
from kcp_py.registry.store.update import uid_of_nothing
from kcp_py.registry.writerequest import Resolved, WriteRequest, create_options_of
from kcp_py.storage.contract import StorageError
from kcp_py.telemetry.programcode import failed_function, passes

_PATCH_ATTEMPTS: Final = 6
"""Attempts of a PATCH whose object changes meanwhile. Releases of k8s.io/apiserver whose handler retries make five more after the first."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


Objects = list[Object]
_PAGES: Final[dict[int, Pages]] = {}
"""The lists of each storage that are read page by page, by its `id`: storages need not be hashable."""


def _pages_of(rest: RestStorage) -> Pages:
    if (pages := _PAGES.get(id(rest))) is None:
        pages = _PAGES[id(rest)] = Pages(time.monotonic)
        finalize(rest, _PAGES.pop, id(rest), None).atexit = False
    return pages


class ObjectList(NamedTuple):
    """A list of computed objects, selected and with the fields that the server adds to answers."""

    items: Sequence[Object]
    revision: int
    continue_token: str = ""
    remaining: int = 0
    """Objects behind the page; 0 where selectors leave that open."""


class PatchedObject(NamedTuple):
    """What a PATCH has made of a computed object."""

    obj: Object
    created: bool = False
    """Whether an apply has made the object."""


class ComputedObjects:
    """The verbs of a computed resource or subresource."""

    def __init__(self, registry: Registry, rest: RestStorage) -> None:
        """Wrap a storage. Made for each request."""
        self._registry = registry
        self._rest = rest

    async def get(self, request: ReadRequest) -> Object:
        """One object, or what a subresource gives.

        Raises:
            StatusError: of the storage.
            StaleStateError: the cluster changed meanwhile.
        """
        cluster_state = request.target.cluster_state
        found = await self._rest.get(request)
        await self._registry.clusters.confirm(cluster_state)
        return answered(_object(found), request.target)

    async def list(self, request: ReadRequest) -> ObjectList:
        """The objects that the selectors leave, of one cluster or of all.

        Over all, a cluster whose list fails is left out with a warning.

        Raises:
            StatusError: 400 for unusable selectors and tokens; 410 for the page of a list that is not kept any more.
            StaleStateError: the cluster changed meanwhile.
        """
        target, options = request.target, request.options
        selection = Selection(options, target.resource)
        pages = _pages_of(self._rest)
        scope = self._scope(request)
        if options.continue_token:
            page = pages.next(scope, options.continue_token, options.limit)
        else:
            listed = await self._listed(request, selection)
            owner = ("*", request.context.user.name) if target.only is None else target.only.name
            page = pages.first(owner, scope, listed.items, listed.version, options.limit)
        return ObjectList(page.items, page.version, page.token, page.remaining if selection.empty else 0)

    @staticmethod
    def _scope(request: ReadRequest) -> object:
        """What a page has in common with the first one."""
        target, options, user = request.target, request.options, request.context.user
        cluster = "" if target.only is None else (target.only.name, target.only.created_revision)
        selectors = str(options.label_selector), str(options.field_selector)
        return cluster, target.resource.key, target.namespace, selectors, user.name, user.uid, tuple(user.groups)

    async def _listed(self, request: ReadRequest, selection: Selection) -> ObjectsAt:
        """The whole list."""
        target = request.target
        revision = self._registry.fanout.revision
        found: Objects = []
        if target.only is not None:
            version = await self._select(request, selection, found)
            await self._registry.clusters.confirm(target.only)
            return ObjectsAt(found, version or revision)
        left_out: dict[Name, StatusError] = {}
        versions: dict[Name, int] = {}
        async for cluster_state in self._registry.states_serving(target.served, target.sight):
            try:
                one = request._replace(target=target._replace(only=cluster_state))
                versions[cluster_state.name] = await self._select(one, selection, found, wildcard=True)
            except StatusError as error:
                left_out[cluster_state.name] = error
            except StorageError as error:
                left_out[cluster_state.name] = translate(error)
            except BaseException as error:
                if passes(error):
                    raise
                # The code of a resource is that of others.
                resource, function = str(target.resource.group_resource), failed_function(error)
                cluster, audit_id = cluster_state.name, request.context.audit_id
                _log.exception("list_failed", audit_id=audit_id, cluster=cluster, resource=resource, function=function)
                left_out[cluster_state.name] = errors.internal(HIDDEN)
        request.context.warnings.extend(left_out_warnings(left_out))
        return ObjectsAt(found, self._rest.common_version(versions) or revision)

    async def _select(self, request: ReadRequest, selection: Selection, found: Objects, *, wildcard: bool = False) -> int:
        """Add the selected objects of one cluster; the resourceVersion of its list, 0 where it has none."""
        turns = TimeSlice()
        answer = await self._rest.list(request)
        assert not isinstance(answer, Listing), "no store holds computed objects"
        listed, version = answer if isinstance(answer, ObjectsAt) else (answer, 0)
        selected: Objects = []
        for obj in listed:
            one = answered(obj, request.target, wildcard=wildcard)
            if selection.matches(one):
                selected.append(one)
            await turns.yield_if_due()
        found += selected
        return version

    def watch(self, request: ReadRequest) -> ComputedWatch:
        """A watch that has yet to be started.

        Raises:
            StatusError: 422 where initial events are asked for and their end is known to the generator alone, as it is over all clusters.
                Clients list first then, as with servers that do not know the option.
        """
        if request.options.send_initial_events and not (self._rest.versioned and request.target.only is not None):
            problem = fielderrors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for watches of computed resources")
            raise errors.invalid("ListOptions.meta.k8s.io", "", [problem])
        make = WildcardWatch if request.target.only is None else ClusterWatch
        return make(self._registry, self._rest, request)

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """What a POST answers with.

        Raises:
            StatusError: 400 for a body that is not of the kind; of a plugin or of the storage.
        """
        await _conform(request, obj)
        check_namespace(obj, request.target)
        return await self._create(request, obj)

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        """What a PUT answers with.

        Raises:
            StatusError: 400 for a body that is not of the kind or has another name or namespace than the URL; of a plugin or of the
                storage.
            StaleStateError: the cluster changed meanwhile.
        """
        await _conform(request, obj)
        check_identity(obj, request.target)
        return await self._update(request, obj, await self._stored_form(request) if "patch" in self._rest.verbs else None)

    async def patch(self, request: WriteRequest, change: Patch) -> PatchedObject:
        """Change an object against what the storage gives, or apply a configuration to it.

        It is tried again where the storage says that the object has changed, unless the client named a resourceVersion.

        Source: k8s.io/apiserver `endpoints/handlers/patch.go`, which patches whatever is a `rest.Patcher`.

        Raises:
            StatusError: 400, 404, 409, 415, 422; of a plugin or of the storage.
            StaleStateError: the cluster changed meanwhile.
        """
        target, request = request.target, accepted(request, change)
        applies = change.type == APPLY_PATCH
        if applies and body_kind(target) is not target.resource:
            return PatchedObject(await self._apply_part(request, change.body))
        may_create = applies and not target.subresource and "create" in self._rest.verbs
        # Before the object is looked up: a bad body is a 400, whether or not there is an object. An attempt uses it up.
        unused = [await read_configuration(change.body)] if applies else []
        warnings_before = len(request.warnings)
        attempt = 0
        while True:
            attempt += 1
            del request.warnings[warnings_before:]
            before = await self._stored_form(request)
            if before is None and not may_create:
                raise errors.not_found(target.resource.group_resource, target.name)
            if applies:
                configuration = unused.pop() if unused else await read_configuration(change.body)
                obj = await self._applied(request, configuration, len(change.body), before)
            else:
                assert before is not None, "only an apply makes an object"
                obj = await patched(request, change, partial(self._answered_form, before, target), len(before))
            if before is not None:
                _check_version(target, orjson.loads(before), obj)
            try:
                if before is not None:
                    return PatchedObject(await self._update(request, obj, before))
                return PatchedObject(await self._create(_creating(request, obj), obj), created=True)
            except StatusError as error:
                if error.reason not in {"AlreadyExists", "Conflict"} or attempt == _PATCH_ATTEMPTS:
                    raise

    async def delete(self, request: WriteRequest) -> Object | None:
        """Delete an object; None where there is nothing to show.

        Raises:
            StatusError: of a plugin or of the storage.
        """
        await self._admit("DELETE", request, None, None)
        gone = await self._rest.delete(request)
        return answered(_object(gone), request.target) if gone is not None else None

    def delete_collection(self, request: WriteRequest, options: ListOptions) -> DeletedComputedObjects:
        """Delete every object that the options select, one after the other.

        Source: k8s.io/apiserver `pkg/registry/generic/registry/store.go` (`DeleteCollection`).

        Raises:
            StatusError: 405 where the storage does not offer it, and over all clusters.
        """
        target = request.target
        if "deletecollection" not in self._rest.verbs:
            raise errors.method_not_supported(target.resource.group_resource, "deletecollection")
        assert target.cluster_state, "405 for all clusters"
        # Only lists that a client reads page by page are kept.
        selected = options if options.continue_token else dataclasses.replace(options, limit=0)

        async def list_all() -> tuple[Sequence[Object], int]:
            listed = await self.list(ReadRequest(request.context, target, selected))
            return listed.items, listed.revision

        return DeletedComputedObjects(request, list_all, self.delete, limit=options.limit)

    async def _apply_part(self, request: WriteRequest, body: bytes) -> Object:
        configuration = await part_configuration(request, body)

        async def admit(obj: Object) -> None:
            await self._admit("UPDATE", request, with_kind(obj, request.target), await self._stored_form(request))

        return answered(_object(await self._rest.apply(request, configuration, admit)), request.target)

    async def _applied(self, request: WriteRequest, configuration: Configuration, size: int, before: bytes | None) -> Object:
        live = orjson.loads(before) if before is not None else None
        obj = (await applied(request, configuration, live, size + len(before or b""))).obj
        if before is None and (uid := obj["metadata"].get("uid")):
            raise uid_of_nothing(request.target.resource, request.target.name, uid)
        return obj

    async def _stored_form(self, request: WriteRequest) -> bytes | None:
        """The object to be written as the storage gives it, as JSON with apiVersion and kind; None where there is none."""
        try:
            found = _object(await self._rest.get(ReadRequest(request.context, request.target)))
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        await self._registry.clusters.confirm(request.target.cluster_state)
        return orjson.dumps(with_kind(found, request.target))

    @staticmethod
    async def _answered_form(value: bytes, target: Resolved) -> Object:
        return answered(orjson.loads(value), target)

    async def _create(self, request: WriteRequest, obj: Object) -> Object:
        await self._note(request, obj, None)
        await self._admit("CREATE", request, obj, None)
        return answered(_object(await self._rest.create(request, obj)), request.target)

    async def _update(self, request: WriteRequest, obj: Object, before: bytes | None) -> Object:
        await self._note(request, obj, before)
        await self._admit("UPDATE", request, obj, before)
        return answered(_object(await self._rest.update(request, obj)), request.target)

    async def _note(self, request: WriteRequest, obj: Object, before: bytes | None) -> None:
        """Note, in place, who owns the fields of an object that can be applied. The storage keeps `managedFields`, or drops them."""
        target, manager = request.target, request.manager
        if "patch" not in self._rest.verbs or body_kind(target) is not target.resource or manager is None or manager.applied:
            return
        live = orjson.loads(before) if before is not None else None
        size = request.size + len(before or b"")
        await note_write(target.resource, live, obj, manager, subresource=target.subresource, size=size)

    async def _admit(self, operation: Operation, request: WriteRequest, obj: Object | None, before: bytes | None) -> None:
        """Ask admission. There is no transaction: conditions of plugins hold when they are asked.

        Raises:
            StatusError: a plugin refuses the write.
        """
        target = request.target
        name = target.name or (obj or {}).get("metadata", {}).get("name", "")
        old = orjson.loads(before) if before is not None else None
        attributes = attributes_of(operation, request, target.namespace, name, obj=obj, old=old, compares=[])
        admission = self._registry.access.admission
        await admission.mutate(attributes, own_kind=body_kind(target) is target.resource)
        await admission.validate(attributes)


def _check_version(target: Resolved, before: Object, obj: Object) -> None:
    """Compare the resourceVersion that the client named, if it did, with that of the object, if the storage keeps one.

    Raises:
        StatusError: 409 where they differ.
    """
    present, given = (one.get("metadata", {}).get("resourceVersion") for one in (before, obj))
    if present and given and given not in {present, "0"}:
        raise errors.conflict(target.resource.group_resource, target.name, errors.OBJECT_MODIFIED)


def _creating(request: WriteRequest, obj: Object) -> WriteRequest:
    """The create that an apply turns into."""
    obj["metadata"].pop("resourceVersion", None)
    return request._replace(options=create_options_of(request.options), target=request.target._replace(name=""))


async def _conform(request: WriteRequest, obj: Object) -> None:
    """Bring the body of a create or an update into the form of its kind, in place.

    Raises:
        StatusError: see `conform`.
    """
    options = request.options
    assert isinstance(options, CreateOptions), "a deletion has no object"
    kind, validation = body_kind(request.target), options.field_validation
    await conform(obj, kind, request.decoding, field_validation=validation, warnings=request.warnings)


def _object(found: object) -> Object:
    assert isinstance(found, dict), "no store holds computed objects"
    return found
