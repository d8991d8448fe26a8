"""The OpenAPI documents of a set of served resources: v3 by group and version with an index, and v2; in JSON and in protobuf.

Fragments and documents are kept by the hash of all that they depend on: clusters that serve the same resources share the work, and a CRD
that changes costs its own fragment and the joining of its documents. Nothing here holds the event loop for longer than it
takes to build one fragment; a big one is built in a thread.

Source: kube-openapi `pkg/handler3` (index, hashes), `pkg/handler` (v2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.lru import LRU
from kcp_py.aio.offload import Inline, offload
from kcp_py.bootstrap.kinds import models, models_by_kind
from kcp_py.registry.discovery import Document, etag_of, etag_of_digest, group_order, version_order
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.subresources import Subresource
from kcp_py.schema.publish.fragments import (
    Fragment,
    document_v2,
    document_v3,
    fragment_v2,
    fragment_v3,
    protobuf_document,
    protobuf_fragment,
)
from kcp_py.schema.publish.kinds import PublishedKind, PublishedSubresource, model_name
from kcp_py.schema.publish.schemas import full_schema

_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"

_FORM: Final = b"6"
"""Part of every hash: to be raised whenever the same resource is published in another form."""


class PartedDocument(NamedTuple):
    """A document in the parts that it is sent in: it may be too large to be put together."""

    parts: tuple[bytes, ...]
    etag: str
    """With its quotes; the same for JSON and protobuf."""

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(self.parts)


class _Entry(NamedTuple):
    digest: bytes
    size: int
    """Bytes of the schema."""
    typed: bool


class _Form(NamedTuple):
    """One of the four forms that everything has."""

    version: int
    """2 or 3, of OpenAPI."""
    protobuf: bool


class FragmentCache:
    """Fragments and documents that were built, for all clusters of a server. Bounded: the longest unused go first."""

    def __init__(self, *, fragment_bytes: int = 64 * 1024 * 1024, document_bytes: int = 32 * 1024 * 1024) -> None:
        self._entries: WeakKeyDictionary[ServedResource, _Entry] = WeakKeyDictionary()
        self._fragments: LRU[tuple[bytes, _Form], Fragment] = LRU(fragment_bytes, weigh=_fragment_size)
        self._documents: LRU[tuple[bytes, _Form], PartedDocument] = LRU(document_bytes, weigh=_parted_size)

    def entry(self, resource: ServedResource) -> _Entry:
        """The digest of all that publication depends on."""
        if (known := self._entries.get(resource)) is None:
            known = self._entries[resource] = self._digest(resource)
        return known

    async def fragment(self, resource: ServedResource, *, version: int, protobuf: bool) -> Fragment:
        """The part of an OpenAPI document, version 2 or 3, that describes a resource."""
        entry = self.entry(resource)
        key = (entry.digest, _Form(version, protobuf))
        if (known := self._fragments.get(key)) is not None:
            return known
        build: Callable[[], Fragment]
        if protobuf:
            build = partial(protobuf_fragment, await self.fragment(resource, version=version, protobuf=False), version)
        else:
            build = partial(fragment_v2 if version == 2 else fragment_v3, self._published(resource))
        # Descriptions of built-in kinds are read from a large file when the first of them is published.
        large = entry.typed or entry.size > Inline.DESCRIBE["protobuf" if protobuf else "json"]
        return self._fragments.setdefault(key, await offload(build) if large else build())

    async def document(self, resources: Sequence[ServedResource], digest: bytes, *, version: int, protobuf: bool) -> PartedDocument:
        """A whole document, shared by all clusters that serve resources of the same digest."""
        key = (digest, _Form(version, protobuf))
        if (known := self._documents.get(key)) is not None:
            return known
        time_slice = TimeSlice()
        fragments = []
        for resource in resources:
            fragments.append(await self.fragment(resource, version=version, protobuf=protobuf))
            await time_slice.yield_if_due()
        parts = []
        for part in _joined(fragments, version, protobuf=protobuf):
            parts.append(part)
            await time_slice.yield_if_due()
        return self._documents.setdefault(key, PartedDocument(tuple(parts), etag_of_digest(digest)))

    def _digest(self, resource: ServedResource) -> _Entry:
        kind = self._published(resource)
        head = orjson.dumps([kind.group, kind.version, kind.kind, kind.list_kind, kind.plural, kind.namespaced, list(kind.verbs)])
        rest = orjson.dumps([kind.subresources, list(kind.selectable_fields), list(kind.patch_types), kind.upstream_model], default=list)
        document = orjson.dumps(kind.document)
        return _Entry(hashlib.sha512(b"\n".join((_FORM, head, rest, document))).digest(), len(document), bool(kind.upstream_model))

    def _published(self, resource: ServedResource) -> PublishedKind:
        # `kubectl apply` cannot compute a strategic merge patch from the schema of a resource that is served by code; it merges then.
        if resource.strategic_merge is not None and resource.rest is None:
            patch_types: tuple[str, ...] = (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH)
            if not resource.typed:
                patch_types = (_APPLY_PATCH, *patch_types)
        else:
            patch_types = (_APPLY_PATCH, _JSON_PATCH, _MERGE_PATCH)
        return PublishedKind(
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            list_kind=resource.list_kind,
            plural=resource.resource,
            namespaced=resource.namespaced,
            verbs=resource.verbs,
            subresources=tuple(_published(resource, subresource) for subresource in resource.subresources.values()),
            selectable_fields=() if resource.typed else tuple(resource.field_labels),
            patch_types=patch_types,
            document=resource.document,
            upstream_model=resource.upstream_model,
        )


class OpenAPIDocuments:
    """The documents of one set of resources. The caller keeps it by the set's identity; the cache keeps the expensive parts."""

    def __init__(self, resources: Iterable[ServedResource], cache: FragmentCache) -> None:
        self._cache = cache
        groups: dict[tuple[str, str], list[ServedResource]] = {}
        for resource in resources:
            groups.setdefault((resource.group, resource.version), []).append(resource)
        self._groups = {
            key: sorted(groups[key], key=lambda resource: resource.resource)
            for key in sorted(groups, key=lambda key: (group_order(key[0]), version_order(key[1])))
        }
        self._digests: dict[tuple[str, str], bytes] = {}
        # One set may serve very many clusters, each under a prefix of its own.
        self._indexes: LRU[str, Document] = LRU(1024 * 1024, weigh=_document_size)

    async def index(self, prefix: str = "") -> Document:
        """`/openapi/v3`.

        Args:
            prefix: the path under which the client reached this server, such as `/clusters/team-a`. The URLs of the index are relative to
                the host, and older clients take them as they are; newer ones know the prefix of their own configuration when they see it.
        """
        if (known := self._indexes.get(prefix)) is not None:
            return known
        paths = {}
        for (group, version), digest in (await self._all_digests()).items():
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"{prefix}/openapi/v3/{quote(path)}?hash={digest.hex().upper()}"}
        body = orjson.dumps({"paths": paths})
        return self._indexes.setdefault(prefix, Document(body, etag_of(body)))

    async def hash_of(self, group: str, version: str) -> str:
        """The hash with which the index names a document; empty where that group and version are not served."""
        if (group, version) not in self._groups:
            return ""
        return self._digest((group, version)).hex().upper()

    async def group_version(self, group: str, version: str, *, protobuf: bool = False) -> PartedDocument | None:
        """`/openapi/v3/api/v1`, `/openapi/v3/apis/<group>/<version>`; None where that is not served. The ETag is the hash, quoted."""
        resources = self._groups.get((group, version))
        if resources is None:
            return None
        return await self._cache.document(resources, self._digest((group, version)), version=3, protobuf=protobuf)

    async def v2(self, *, protobuf: bool = False) -> PartedDocument:
        """`/openapi/v2`."""
        everything = [resource for group in self._groups.values() for resource in group]
        return await self._cache.document(everything, await self._v2_digest(), version=2, protobuf=protobuf)

    async def v2_etag(self) -> str:
        """The ETag of `v2`, without the document."""
        return etag_of_digest(await self._v2_digest())

    async def _v2_digest(self) -> bytes:
        return hashlib.sha512(b"".join((await self._all_digests()).values())).digest()

    async def _all_digests(self) -> dict[tuple[str, str], bytes]:
        time_slice = TimeSlice()
        for key in self._groups:
            self._digest(key)
            await time_slice.yield_if_due()
        return {key: self._digests[key] for key in self._groups}

    def _digest(self, key: tuple[str, str]) -> bytes:
        if (known := self._digests.get(key)) is None:
            joined = b"".join(self._cache.entry(resource).digest for resource in self._groups[key])
            known = self._digests[key] = hashlib.sha512(joined).digest()
        return known


def published_schema(resource: ServedResource) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """The schema of the kind of a resource as it is published, without most descriptions, and the models that it refers to, by name."""
    if resource.upstream_model:
        return resource.document, resource.models
    return full_schema(
        PublishedKind(
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            list_kind=resource.list_kind,
            plural=resource.resource,
            namespaced=resource.namespaced,
            verbs=(),
            patch_types=(),
            document=resource.document,
        )
    ), {**resource.models, **models()}


def _published(resource: ServedResource, subresource: Subresource) -> PublishedSubresource:
    """A view of a stored object has those verbs that the object has, too: a kind that is going away cannot be changed."""
    kind, verbs = subresource.kind, subresource.verbs
    if subresource.rest is None:
        verbs = tuple(verb for verb in verbs if verb in resource.verbs)
    if kind is None:
        return PublishedSubresource(subresource.name, verbs)
    model = models_by_kind().get(kind) or model_name(*kind)
    # Upstream marks the Scale of a custom resource with the kind of the resource (apiextensions-apiserver `builder.go`).
    own = subresource.rest is None and not resource.upstream_model
    return PublishedSubresource(subresource.name, verbs, model, None if own else kind._asdict())


def _joined(fragments: Sequence[Fragment], version: int, *, protobuf: bool) -> Iterator[bytes]:
    if protobuf:
        return protobuf_document(fragments, version)
    return (document_v2 if version == 2 else document_v3)(fragments)


def _document_size(document: Document) -> int:
    return len(document.body)


def _parted_size(document: PartedDocument) -> int:
    return sum(map(len, document.parts))


def _fragment_size(fragment: Fragment) -> int:
    return fragment.weight
