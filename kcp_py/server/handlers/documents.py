"""Discovery and OpenAPI: what a cluster serves, described in documents that clusters with the same resources share.

Documents are kept as long as a cluster in the caches uses them. They leave memory with the last of these clusters, whether it is deleted,
evicted, or serves other resources.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.serializer.protobuf import enclose
from kcp_py.apimachinery.serializer.protobuf import encode as encode_message
from kcp_py.bootstrap.wire import META
from kcp_py.logicalcluster import Wildcard
from kcp_py.registry.catalog.table import ResourceTable, ResourceUnion
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.discovery import Discovery, Document
from kcp_py.registry.openapi import FragmentCache, OpenAPIDocuments
from kcp_py.request.context import RequestContext
from kcp_py.server.encoding import encode_offloaded
from kcp_py.server.etags import is_current
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import send_document
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.openapi import send_group_version, send_index, send_v2
from kcp_py.server.handlers.target import method_not_allowed, resolve_cluster, unknown_in_group
from kcp_py.server.negotiation import (
    DEFAULT,
    Representation,
    discovery_content_type,
    negotiate_discovery,
    negotiate_document,
    wants_pretty,
)
from kcp_py.server.responsehead import Header

_DOCUMENTS_BYTES: Final = 200_000
"""What the documents about a set of resources take, without those of the resources themselves: they describe all built-in kinds, too."""
_RESOURCE_BYTES: Final = 3_000
"""What a resource that not every cluster serves takes in documents of discovery. Documents of OpenAPI have bounds of their own."""
_USE_BYTES: Final = 200
"""What a use of documents takes, without references to the resources."""
_REFERENCE_BYTES: Final = 8


class _Described:
    """The documents of one set of resources; a `Shared` value of the clusters that serve them."""

    __slots__ = ("__weakref__", "discovery", "memory", "openapi", "since")

    def __init__(self, table: ResourceTable | ResourceUnion, server_address: str, fragments: FragmentCache) -> None:
        resources = tuple(table.resources())
        self.discovery = Discovery(resources, server_address=server_address)
        self.openapi = OpenAPIDocuments(resources, fragments)
        self.since = time.time()
        self.memory: Final = _DOCUMENTS_BYTES + _RESOURCE_BYTES * table.count


class Documents:
    """Answers `/api`, `/apis` and `/openapi` of every cluster."""

    def __init__(self, backend: Backend, *, server_address: str) -> None:
        self._backend = backend
        self._server_address = server_address
        self._described: WeakValueDictionary[bytes, _Described] = WeakValueDictionary()
        """By the digest of the table: clusters that serve the same resources share them."""
        self._used: dict[Hashable, _Described] = {}
        """By the cluster that uses them, or the scope of the caller over all clusters."""
        self._kept = backend.access.budget.part("documents", self._used.pop)
        self._fragments = FragmentCache()

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            StatusError: 404 for a group or version that the cluster does not serve, 405 for anything but reads, 503 for a cluster that is
                deleted meanwhile.
        """
        context = exchange.context
        segments = context.info.path.strip("/").split("/")
        if len(segments) == 1 or segments[0] == "openapi":
            _check_reads(exchange)
        if isinstance(context.cluster, Wildcard) and segments[0] == "openapi":
            raise errors.unknown_path()
        table = await self._table(exchange)
        described = self._describe(context, table)
        match segments:
            case ["api"]:
                await self._send_roots(exchange, described.discovery.core_versions(), described.discovery.aggregated_core)
            case ["apis"]:
                await self._send_roots(exchange, described.discovery.groups(), described.discovery.aggregated)
            case ["apis", group]:
                await _send(exchange, described.discovery.group(group), table, group)
            case ["api", version]:
                await _send(exchange, described.discovery.resources("", version), table, "")
            case ["apis", group, version]:
                await _send(exchange, described.discovery.resources(group, version), table, group)
            case ["openapi", "v2"]:
                await send_v2(exchange, described.openapi, described.since)
            case ["openapi", "v3"]:
                await send_index(exchange, described.openapi, described.since)
            case ["openapi", "v3", "api", version]:
                await send_group_version(exchange, described.openapi, described.since, group="", version=version)
            case ["openapi", "v3", "apis", group, version]:
                await send_group_version(exchange, described.openapi, described.since, group=group, version=version)
            case _:
                raise errors.unknown_path()

    async def paths(self, exchange: Exchange) -> list[str]:
        """Every path that `answer` answers in the cluster of a request, for the index at `/`.

        Raises:
            StatusError: the cluster is not there.
        """
        table = await self._table(exchange)
        served = sorted({(resource.group, resource.version) for resource in table.resources()})
        versions = [f"apis/{group}/{version}" if group else f"api/{version}" for group, version in served]
        found = ["/api", "/apis", *(f"/apis/{group}" for group in sorted({group for group, _ in served if group}))]
        found += [f"/{version}" for version in versions]
        if not isinstance(exchange.context.cluster, Wildcard):
            found += ["/openapi/v2", "/openapi/v3", *(f"/openapi/v3/{version}" for version in versions)]
        return found

    async def _table(self, exchange: Exchange) -> ResourceTable | ResourceUnion:
        """What the cluster of a request serves, or all clusters together."""
        context = exchange.context
        if isinstance(context.cluster, Wildcard):
            return await self._backend.wildcard.union(context.sight)
        cluster = context.cluster
        cluster_state = await resolve_cluster(self._backend, context, cluster)
        table = self._backend.tables.cached(cluster)
        if table is None:
            table = await self._backend.tables.get(cluster)
            await self._check_life(cluster_state)
        return table

    async def _check_life(self, cluster_state: ClusterState) -> None:
        """Check that definitions that were just read are not of a later cluster of the name, of which the caller may be no user.

        Raises:
            StatusError: 503, the cluster was deleted since the request began.
        """
        if not cluster_state.created_revision:
            return
        item = await self._backend.access.storage.get(self._backend.clusters.key(cluster_state.name))
        if item is None or item.create_revision != cluster_state.created_revision:
            raise errors.service_unavailable("the logical cluster was deleted, please try again", retry_after_seconds=1)

    def _describe(self, context: RequestContext, table: ResourceTable | ResourceUnion) -> _Described:
        """The documents of what a request has found to be served."""
        described = self._described.get(table.digest)
        if described is None:
            described = self._described[table.digest] = _Described(table, self._server_address, self._fragments)
        cluster = context.cluster
        key: Hashable = (cluster, context.sight.scope) if isinstance(cluster, Wildcard) else cluster
        if self._used.get(key) is described:
            self._backend.access.budget.use(key)
        elif isinstance(cluster, Wildcard) or key in self._used or self._backend.tables.peek(cluster) is table:
            # A table that is not in its cache may be of a cluster that has been deleted since the request began.
            shared = (described, *table.shared())
            self._used[key] = described
            self._kept.hold(key, _USE_BYTES + _REFERENCE_BYTES * len(shared), shared)
        return described

    async def _send_roots(self, exchange: Exchange, plain: Document, aggregated: Any) -> None:
        pretty = wants_pretty(exchange.query, exchange.headers.get(b"user-agent"))
        representation = negotiate_discovery(exchange.headers.get(b"accept"), pretty=pretty)
        if representation.transform != "APIGroupDiscoveryList":
            await _send_as(exchange, plain, representation)
            return
        document: Document = aggregated()
        content_type = discovery_content_type(representation)
        if _has(exchange, document.etag):
            await exchange.respond_not_modified(_cacheable(document.etag))
        elif representation.media == "json" and not representation.pretty:
            await exchange.respond(200, document.body, content_type, _cacheable(document.etag))
        else:
            body = await encode_offloaded(orjson.loads(document.body), representation)
            await exchange.respond(200, body, content_type, _cacheable(document.etag))


def _check_reads(exchange: Exchange) -> None:
    if exchange.method not in {"GET", "HEAD"}:
        raise method_not_allowed()


async def _send(exchange: Exchange, document: Document | None, table: ResourceTable | ResourceUnion, group: str) -> None:
    if document is None:
        raise unknown_in_group(table, group)
    _check_reads(exchange)
    pretty = wants_pretty(exchange.query, exchange.headers.get(b"user-agent"))
    await _send_as(exchange, document, negotiate_document(exchange.headers.get(b"accept"), pretty=pretty))


async def _send_as(exchange: Exchange, document: Document, representation: Representation) -> None:
    if representation == DEFAULT:
        await exchange.respond(200, document.body)
        return
    decoded: dict[str, Any] = orjson.loads(document.body)
    if representation.media == "protobuf" and "apiVersion" not in decoded:
        # The oldest documents carry no version in any form (k8s.io/apiserver `endpoints/discovery/util.go`).
        body = b"".join(enclose("", decoded["kind"], [encode_message(META + decoded["kind"], decoded)]))
        await exchange.respond(200, body, representation.content_type)
    else:
        await send_document(exchange, decoded, representation)


def _has(exchange: Exchange, etag: str) -> bool:
    """Whether the client has the current document."""
    return is_current(exchange.headers.get(b"if-none-match", b""), etag, weak=False)


def _cacheable(etag: str) -> tuple[Header, ...]:
    return ((b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public"))
