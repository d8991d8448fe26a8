"""The verbs of resources that a `RestStorage` serves: requests are decoded, its methods called, and their results encoded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, NamedTuple

import structlog

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors, fielderrors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import (
    CreateOptions,
    ListOptions,
    decode_create_options,
    decode_include_object,
    decode_list_options,
    decode_update_options,
)
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Operation, attributes_of
from kcp_py.registry.computed import ANY_OBJECT
from kcp_py.registry.rest.conform import BodyKind
from kcp_py.registry.rest.create import check_namespace
from kcp_py.registry.rest.selection import Selection
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.registry.rest.update import check_identity
from kcp_py.registry.scope import ClusterScope
from kcp_py.registry.store.access import translate
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.contract import CompiledSchema
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import not_of_kind, representation_of, send_document, send_object
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.body import read
from kcp_py.server.handlers.collection import send_objects
from kcp_py.server.handlers.delete import read_delete_options
from kcp_py.server.handlers.frames import Frames
from kcp_py.server.handlers.manager import manager_of
from kcp_py.server.handlers.target import Target
from kcp_py.server.negotiation import Representation, request_media
from kcp_py.storage.contract import StorageError
from kcp_py.watchcache import Watcher

_CLUSTERS_AT_ONCE: Final = 100
_HIDDEN: Final = "the server could not complete the request; the audit id of the response finds the cause in its log"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.server")


async def get(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer with one object, or with what a subresource gives."""
    representation = representation_of(exchange, target.resource)
    scope = target.one_cluster()
    found = await _rest(target).get(_read(exchange, target, scope, ListOptions()))
    await backend.clusters.confirm(scope)
    await _answer(backend, exchange, target, found, representation=representation, status=200)


async def list_objects(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer with the objects that the selectors leave, of one cluster or of all.

    Raises:
        StatusError: 400 for a continue token: lists of computed objects are answered whole.
    """
    representation = representation_of(exchange, target.resource, listed=True)
    options = decode_list_options(exchange.query)
    if options.continue_token:
        raise errors.bad_request("continue: lists of this resource are answered whole")
    if representation.transform == "PartialObjectMetadata":
        raise not_of_kind(target.resource, representation.transform)
    selection = Selection(options, target.resource)
    revision = backend.fanout.revision
    found: list[Object] = []
    time_slice = TimeSlice()
    async for scope in _scopes(backend, target):
        for obj in await _rest(target).list(_read(exchange, target, scope, options)):
            one = shown(obj, target, scope.name)
            if selection.matches(one):
                found.append(one)
            await time_slice.yield_if_due()
        await time_slice.yield_if_due()
    if target.scope is not None:
        await backend.clusters.confirm(target.scope)
    await send_objects(backend, exchange, target, found, representation, revision=revision)


async def watch(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Stream the changes of a computed collection in one cluster, until its generator, the cluster, the client or the clock ends it.

    Raises:
        StatusError: 503 when the server is shutting down, 405 over all clusters, 422 where initial events are asked for: their end is
            known to the generator alone. Clients list first then, as with servers that do not know the option.
    """
    if backend.shutting_down:
        raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
    scope = target.one_cluster()
    representation = representation_of(exchange, target.resource, watch=True, listed=True)
    options = decode_list_options(exchange.query)
    if options.send_initial_events:
        problem = fielderrors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for watches of computed resources")
        raise errors.invalid("ListOptions.meta.k8s.io", "", [problem])
    selection = Selection(options, target.resource)
    frames = Frames(backend, target, representation, selection, decode_include_object(exchange.query))
    events = _rest(target).watch(_read(exchange, target, scope, options))
    # Nothing is ever stored below this prefix: the watcher tells of the end of the cluster and of the server alone.
    watcher = backend.fanout.reserve(target.resource.keys.prefix, cluster=scope.name)
    try:
        await backend.clusters.confirm(scope)
        backend.fanout.begin(watcher, backend.fanout.revision)
        await exchange.start_watch(representation.stream_content_type, prefix=4 if representation.media == "protobuf" else 0)
        exchange.on_disconnect(lambda: watcher.end(ConnectionError()))
    except BaseException:
        await backend.fanout.detach(watcher)
        await events.aclose()
        raise
    seconds = options.timeout_seconds or backend.limits.min_watch_seconds * random.uniform(1, 2)

    async def shown_frames() -> AsyncGenerator[bytes, None]:
        selected = _SelectedEvents(selection)
        try:
            async with aclosing(events):
                async for event in events:
                    obj = shown(event.obj, target, scope.name)
                    if kind := selected.kind_of(event.type, obj):
                        yield await frames.of_object(kind, obj, target.served, scope.name)
        except StatusError:
            raise
        except StorageError as error:
            raise translate(error) from error
        except Exception as error:
            _log.exception("watch_failed", audit_id=exchange.audit_id, resource=str(target.resource.group_resource))
            raise errors.internal(_HIDDEN) from error

    async def stream() -> None:
        try:
            await _stream(exchange, shown_frames(), watcher, float(seconds))
        except StatusError as error:
            await exchange.send_frames([frames.error(error)])
        finally:
            await backend.fanout.detach(watcher)
        if not exchange.disconnected:
            await exchange.finish()

    exchange.continuation = stream


class _SelectedEvents:
    """Event types under selectors: an object that begins to match is ADDED, one that ceases to match is DELETED."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._shown: set[tuple[str, str]] = set()
        """Namespace and name of each object that the client knows; empty where everything is selected."""

    def kind_of(self, kind: str, obj: Object) -> str:
        """The type of the event for the client; empty for an event that it does not see."""
        if self._selection.empty:
            return kind
        place = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        known = place in self._shown
        if kind == "DELETED" or not self._selection.matches(obj):
            self._shown.discard(place)
            return "DELETED" if known else ""
        self._shown.add(place)
        return "MODIFIED" if known else "ADDED"


async def _stream(exchange: Exchange, frames: AsyncGenerator[bytes, None], watcher: Watcher, seconds: float) -> None:
    """Send frames until there are no more, the watcher ends, or the time is over.

    Raises:
        StatusError: of the storage.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    ended = asyncio.ensure_future(_until_end(watcher))
    following: asyncio.Future[bytes | None] | None = None
    try:
        while (left := deadline - loop.time()) > 0:
            following = asyncio.ensure_future(anext(frames, None))
            await asyncio.wait((following, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() or not following.done():
                return
            frame = following.result()
            if frame is None:
                return
            await exchange.send_frames([frame])
    finally:
        ended.cancel()
        if following is not None and not following.done():
            # A generator that runs cannot be closed.
            following.cancel()
            await asyncio.wait((following,))
        await frames.aclose()


async def _until_end(watcher: Watcher) -> None:
    while not watcher.ended:
        await watcher.wait()


async def create(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer a POST with what the storage makes of the body: 201."""
    representation = representation_of(exchange, target.resource)
    request, obj = await _decoded(backend, exchange, target, decode_create_options(exchange.query))
    check_namespace(obj, request.target)
    await _admit(backend, target, "CREATE", request, obj)
    made = await _rest(target).create(request, obj)
    await _answer(backend, exchange, target, made, representation=representation, status=201)


async def update(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer a PUT with what the storage makes of the body."""
    representation = representation_of(exchange, target.resource)
    request, obj = await _decoded(backend, exchange, target, decode_update_options(exchange.query))
    if not target.subresource:
        check_identity(obj, request.target)
    await _admit(backend, target, "UPDATE", request, obj)
    made = await _rest(target).update(request, obj)
    await _answer(backend, exchange, target, made, representation=representation, status=200)


async def delete(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Delete an object; answer with what the storage shows, or with a Status."""
    representation = representation_of(exchange, target.resource)
    request = target.write(exchange, await read_delete_options(backend, exchange), 0)
    await _admit(backend, target, "DELETE", request, None)
    gone = await _rest(target).delete(request)
    if gone is not None:
        await _answer(backend, exchange, target, gone, representation=representation, status=200)
        return
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.resource}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    await send_document(exchange, status, representation)


HANDLERS: Final[Mapping[str, Callable[[Backend, Exchange, Target], Awaitable[None]]]] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "delete": delete,
}


def shown(obj: Object, target: Target, cluster: Name) -> Object:
    """A computed object as clients get it: with apiVersion and kind, and with the annotation that names its cluster."""
    resource = target.resource
    document = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
    return resource.renderer.dress(document, 0, cluster, wildcard=target.scope is None)


def _rest(target: Target) -> RestStorage:
    rest = target.rest
    assert isinstance(rest, RestStorage), "only computed resources come here"
    return rest


def _read(exchange: Exchange, target: Target, scope: ClusterScope, options: ListOptions) -> ReadRequest:
    return ReadRequest(exchange.context, Resolved(scope, target.served, target.namespace, target.name, target.subresource), options)


async def _scopes(backend: Backend, target: Target) -> AsyncGenerator[ClusterScope, None]:
    """The cluster of a request, or all that exist and serve the resource."""
    if target.scope is not None:
        yield target.scope
        return
    first: Name | None = None
    while page := await backend.clusters.scopes(first, _CLUSTERS_AT_ONCE + 1, 0):
        for scope in page[:_CLUSTERS_AT_ONCE]:
            if await backend.tables.served_in(scope.name, target.served) is not None:
                yield scope
        if len(page) <= _CLUSTERS_AT_ONCE:
            return
        first = page[-1].name


class _ForeignKind(NamedTuple):
    """A `conform.BodyKind` of which nothing is known but its name."""

    group: str
    version: str
    kind: str
    group_version: str
    builtin: bool
    schema: CompiledSchema


def _body_kind(target: Target) -> BodyKind:
    """The kind of the body of a request."""
    kind = target.resource.subresources[target.subresource].kind if target.subresource else None
    if kind is None:
        return target.resource
    group_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    return _ForeignKind(kind.group, kind.version, kind.kind, group_version, True, compile_schema(ANY_OBJECT))


async def _decoded(backend: Backend, exchange: Exchange, target: Target, options: CreateOptions) -> tuple[WriteRequest, Object]:
    """The request, and the object of its body."""
    media = request_media(exchange.headers.get(b"content-type"), protobuf=False)
    body = await exchange.read_body(backend.limits.max_body_bytes)
    obj = await read(body, media, _body_kind(target), field_validation=options.field_validation, warnings=exchange.warnings)
    return target.write(exchange, options, len(body), manager_of(backend, exchange, options)), obj


async def _admit(backend: Backend, target: Target, operation: Operation, request: WriteRequest, obj: Object | None) -> None:
    """Ask admission. There is no stored object to compare with, and no transaction: conditions of plugins hold when they are asked.

    Raises:
        StatusError: a plugin refuses the write.
    """
    name = target.name or (obj or {}).get("metadata", {}).get("name", "")
    attributes = attributes_of(operation, request, target.namespace, name, obj=obj, old=None, compares=[])
    admission = backend.access.admission
    await admission.mutate(attributes, own_kind=_body_kind(target) is target.resource)
    await admission.validate(attributes)


async def _answer(
    backend: Backend, exchange: Exchange, target: Target, found: Object, *, representation: Representation, status: int
) -> None:
    """Answer with an object of the resource, or with the document of a subresource."""
    entry = target.resource.subresources[target.subresource] if target.subresource else None
    if entry is None or entry.kind is None:
        await send_object(backend, exchange, target, shown(found, target, target.one_cluster().name), representation, status=status)
        return
    kind = entry.kind
    document = {"apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version, "kind": kind.kind, **found}
    await send_document(exchange, document, representation, status=status)
