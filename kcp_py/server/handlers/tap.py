"""`/clusters/*/tap/v1/…`: the store of all clusters for controllers in a process of their own.

These paths are not resources. Like `/metrics` they are open to users that may use the path in the wildcard: privileged users alone. See
docs/adr/0020.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.authz.forbidden import forbidden
from kcp_py.client.tap import ObjectChange, ObjectFilter, StoredResource, Tap
from kcp_py.client.tapwire import (
    HEARTBEAT_SECONDS,
    VERSION,
    change_line,
    checked_resource,
    error_line,
    parse_deletion,
    parse_filter,
    parse_finalizer,
    parse_recount,
    revision_line,
)
from kcp_py.logicalcluster import Name, Wildcard, parse_name
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.watchcache import WatchRevokedError

_MOST_BEHIND: Final = 100_000
"""Changes that wait for a slow reader. More end its stream: it looks at everything again."""
_TOGETHER_SECONDS: Final = 0.02
"""Changes that follow each other so closely are sent together."""


class TapHandler:
    """Answers the requests of `client.remotetap`."""

    def __init__(self, backend: Backend, tap: Tap) -> None:
        self._backend = backend
        self._tap = tap

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            StatusError: 404 for a path that is not served, also outside the wildcard; 403 for a caller that may read some clusters alone;
                400 for parameters that cannot be read.
        """
        segments = exchange.context.info.path.strip("/").split("/")
        if not isinstance(exchange.context.cluster, Wildcard) or len(segments) != 3 or segments[1] != VERSION:
            raise errors.unknown_path()
        if not exchange.context.sight.unrestricted:
            # The tap reads and deletes in all clusters alike.
            raise forbidden(exchange.context.user, exchange.context.info)
        if self._backend.shutting_down:
            raise errors.service_unavailable("apiserver is shutting down", retry_after_seconds=1)
        tap, given = self._tap.acting_as(exchange.context.user), _Parameters(exchange)
        match exchange.method, segments[2]:
            case "GET", "changes":
                await self._stream(exchange, _changes(tap, given.version_resource, given.filter))
            case "GET", "observations":
                await self._stream(exchange, self._observations(tap, given.filter))
            case "GET", "objects":
                found = tap.stored_objects(given.any_cluster, concerned=given.filter, resource=given.any_resource, limit=given.limit)
                await self._stream(exchange, self._objects(found))
            case "GET", "resources":
                stored = await tap.stored_resources(given.cluster)
                await _send(exchange, [_stored_document(one) for one in stored])
            case "GET", "names":
                await _send(exchange, [held._asdict() for held in await tap.held_names(given.cluster, given.text("group"))])
            case "GET", "builtins":
                builtins = await tap.builtin_names()
                await _send(exchange, {group: [one._asdict() for one in names] for group, names in builtins.items()})
            case "POST", "deletions":
                await _send(exchange, await self._delete(tap, exchange))
            case "POST", "finalizers":
                await _send(exchange, await self._remove_finalizer(tap, exchange))
            case "POST", "recounts":
                await _send(exchange, await self._recount(tap, exchange))
            case _:
                raise errors.unknown_path()

    async def _objects(self, found: AsyncGenerator[ObjectChange, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(found):
            async for change in found:
                yield change_line(change, whole=False)
        yield revision_line(self._backend.fanout.revision)

    async def _observations(self, tap: Tap, concerned: ObjectFilter) -> AsyncGenerator[bytes, None]:
        fanout = self._backend.fanout
        waiting: deque[bytes] = deque()
        missed = asyncio.Event()

        def observe(change: ObjectChange) -> None:
            waiting.append(change_line(change, whole=False))
            if len(waiting) > _MOST_BEHIND:
                missed.set()

        end = tap.observe(observe, concerned=concerned, missed=missed.set)
        try:
            while not missed.is_set():
                # Observers have been called with all of this revision before it is reached.
                revision = fanout.revision
                lines = b"".join(waiting)
                waiting.clear()
                yield lines + revision_line(revision)
                await fanout.reached(revision + 1)
                await asyncio.sleep(_TOGETHER_SECONDS)
        finally:
            end()

    async def _delete(self, tap: Tap, exchange: Exchange) -> Mapping[str, Any]:
        body = await exchange.read_body(self._backend.limits.max_body_bytes)
        with _parsing():
            given = parse_deletion(body)
        cluster, resource, namespace, settled, holder = given
        remaining = await tap.delete_stored(cluster, resource, namespace, settled=settled, holder=holder)
        return {"objects": remaining.objects, "finalizers": dict(remaining.finalizers)}

    async def _remove_finalizer(self, tap: Tap, exchange: Exchange) -> Mapping[str, Any]:
        body = await exchange.read_body(self._backend.limits.max_body_bytes)
        with _parsing():
            given = parse_finalizer(body)
        await tap.remove_finalizer(given.cluster, given.resource, given.namespace, given.name, finalizer=given.finalizer, uid=given.uid)
        return {}

    async def _recount(self, tap: Tap, exchange: Exchange) -> Mapping[str, Any]:
        body = await exchange.read_body(self._backend.limits.max_body_bytes)
        with _parsing():
            given = parse_recount(body)
        await tap.recount_quota(given.cluster, given.namespace, given.name)
        return {}

    async def _stream(self, exchange: Exchange, lines: AsyncGenerator[bytes, None]) -> None:
        """Send lines when this request is answered, until there are no more, the client leaves or the server ends."""
        # It never begins, and ends with all watches: when the server stops, or has missed changes.
        watcher = self._backend.fanout.reserve(self._backend.clusters.prefix)
        try:
            await exchange.start_watch(b"application/json")
            exchange.on_disconnect(lambda: watcher.end(ConnectionError()))
            exchange.end = lambda reason=None: watcher.end(WatchRevokedError() if reason is None else reason)
        except BaseException:
            await lines.aclose()
            await self._backend.fanout.detach(watcher)
            raise

        async def until_end() -> None:
            while not watcher.ended:
                await watcher.wait()

        async def stream() -> None:
            try:
                await _pump(exchange, lines, asyncio.ensure_future(until_end()))
            finally:
                await self._backend.fanout.detach(watcher)
            if not exchange.disconnected:
                await exchange.finish()

        exchange.continuation = partial(stream)


async def _changes(tap: Tap, resource: GroupVersionResource, wanted: ObjectFilter) -> AsyncGenerator[bytes, None]:
    async with aclosing(tap.changes(resource, wanted=wanted)) as changes:
        async for change in changes:
            yield change_line(change, whole=True)


async def _pump(exchange: Exchange, lines: AsyncGenerator[bytes, None], ended: asyncio.Future[None]) -> None:
    following: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            if following is None:
                following = asyncio.ensure_future(anext(lines, None))
            await asyncio.wait((following, ended), timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return
            if not following.done():
                await exchange.send_chunk(b"\n")
                continue
            line = following.result()
            following = None
            if line is None:
                return
            await exchange.send_chunk(line)
    except StatusError as error:
        await exchange.send_chunk(error_line(error))
    except StaleStateError:
        return
    finally:
        ended.cancel()
        if following is not None and not following.done():
            # A generator that runs cannot be closed.
            following.cancel()
            await asyncio.wait((following,))
        await lines.aclose()


@contextmanager
def _parsing() -> Iterator[None]:
    """Answer 400 for a request that cannot be parsed. Errors of any other step are faults of the server."""
    try:
        yield
    except ValueError as error:
        raise errors.bad_request(f"tap: {error}") from error


class _Parameters:
    """The query of a request. A parameter that cannot be parsed is 400."""

    def __init__(self, exchange: Exchange) -> None:
        self._query = exchange.query

    def text(self, name: str) -> str:
        """A parameter; empty where it is not given."""
        values = self._query.get(name)
        return values[0] if values else ""

    @property
    def cluster(self) -> Name:
        """The cluster that the request is about."""
        with _parsing():
            return parse_name(self.text("cluster"))

    @property
    def any_cluster(self) -> Name | None:
        """None for all clusters."""
        return self.cluster if self.text("cluster") else None

    @property
    def version_resource(self) -> GroupVersionResource:
        """The resource whose changes are asked for."""
        with _parsing():
            found = checked_resource(self.text("group"), self.text("resource"))
        return GroupVersionResource(found.group, self.text("version"), found.resource)

    @property
    def any_resource(self) -> GroupResource | None:
        """None for all resources."""
        if not self.text("resource"):
            return None
        with _parsing():
            return checked_resource(self.text("group"), self.text("resource"))

    @property
    def filter(self) -> ObjectFilter:
        """Which objects are shown."""
        with _parsing():
            return parse_filter(self.text("filter"))

    @property
    def limit(self) -> int:
        """How many objects of each resource are looked at; 0 for all."""
        with _parsing():
            return int(self.text("limit") or 0)


def _stored_document(resource: StoredResource) -> Mapping[str, Any]:
    return {**resource.group_resource._asdict(), "custom": resource.custom, "namespaced": resource.namespaced}


async def _send(exchange: Exchange, document: Any) -> None:
    await exchange.respond(200, orjson.dumps(document))
