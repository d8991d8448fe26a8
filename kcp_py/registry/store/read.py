"""Reading single objects, and decoding stored ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.managedfields.entries import Managed
from kcp_py.apimachinery.meta.decoding import drop_malformed_fields
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store.access import Access
from kcp_py.registry.store.decoded import Decoded
from kcp_py.registry.store.defaults import find_default
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.structural.default import MAX_FILLED, TooManyDefaultsError
from kcp_py.storage.contract import KeyValue

_DECODED_PER_TURN: Final = 200
_FILLED_ON_READ: Final = 1024 * 1024
"""Characters of defaults that a read adds to an object: many of them are read together."""


def find(
    access: Access, cluster_state: ClusterState, served: Served, namespace: str, name: str, *, key: str = ""
) -> Awaitable[KeyValue | None]:
    """The stored object, or the one that every cluster has by default, or None.

    Args:
        access: the store.
        cluster_state: the logical cluster.
        served: the resource.
        namespace: empty for cluster-scoped objects.
        name: of the object.
        key: its `ResourceKeys.object_key`, where the caller has built it.

    Raises:
        StaleStateError: the CRD that a default object comes with was written since the resource was worked out.
    """
    resource = served.resource
    stored = access.storage.get(key or resource.keys.object_key(cluster_state.name, namespace, name))
    return _or_default(stored, access, cluster_state, served, namespace, name) if resource.has_defaults else stored


async def _or_default(  # noqa: PLR0917 - the arguments of `find`
    stored: Awaitable[KeyValue | None], access: Access, cluster_state: ClusterState, served: Served, namespace: str, name: str
) -> KeyValue | None:
    item = await stored
    return await find_default(access, cluster_state, served, namespace, name) if item is None else item


async def get(access: Access, cluster_state: ClusterState, served: Served, namespace: str, name: str) -> KeyValue:
    """The stored object.

    Raises:
        StatusError: 404.
    """
    item = await find(access, cluster_state, served, namespace, name)
    if item is None:
        raise errors.not_found(served.resource.group_resource, name)
    return item


async def load(served: Served, items: Sequence[KeyValue]) -> list[dict[str, Any]]:
    """Decode stored objects and bring them to the served version.

    Objects older than the present schema are pruned and defaulted in the version in which they are stored, then converted, then pruned by
    the served version; defaults of that one are for requests alone (k8s.io/apiextensions-apiserver `crdRESTOptionsGetter`). The result has
    neither resourceVersion nor cluster.
    """
    resource = served.resource
    objects: list[dict[str, Any]] = []
    schemas: list[CompiledSchema | None] = []
    for at, item in enumerate(items, start=1):
        obj, schema = await _decode_item(served, item)
        objects.append(obj)
        # What a webhook answers obeys no schema yet.
        schemas.append(schema if resource.converter is None or obj["apiVersion"] == resource.group_version else None)
        if at % _DECODED_PER_TURN == 0:
            await asyncio.sleep(0)
    if resource.converter is not None:
        objects = await resource.converter(objects, resource.group_version)
    return [_served_form(resource, obj, schema) for obj, schema in zip(objects, schemas, strict=True)]


async def load_one(served: Served, item: KeyValue) -> dict[str, Any]:
    """`load` for a single object."""
    resource = served.resource
    if resource.converter is None:
        return _served_form(resource, *await _decode_item(served, item))
    return (await load(served, [item]))[0]


class Current:
    """A stored object that a write begins with: decoded as often as it is asked for, converted once."""

    __slots__ = ("_converted", "_served", "conforming", "decoded", "intact", "item", "noted", "settled")

    def __init__(self, served: Served, item: KeyValue, decoded: Decoded | None = None) -> None:
        """An item, the resource as it is served, and the item as it is shared with other writes, where it is."""
        self.item = item
        self.decoded: Final = decoded
        self.noted: Managed | None = None
        """What the managedFields of the new object say, where an apply has worked that out."""
        self.settled: dict[str, Any] | None = None
        """Parts of the new object that are known to be valid, see `schema.structural.settled`."""
        self.conforming = True
        """Whether the new object is as pruning and defaults leave it, but for parts of the stored one."""
        self.intact = False
        """Whether `load` is known to decode the stored bytes as they are, but for the apiVersion."""
        self._served = served
        self._converted = b""

    async def load(self) -> dict[str, Any]:
        """The object as `load_one` gives it, for the caller to keep and to change."""
        resource, item = self._served.resource, self.item
        if self.intact or self.decoded is not None:
            # Objects that were just written are shared whatever their size.
            large = len(item.value) > Inline.TRANSFORM
            again: dict[str, Any] = await offload(orjson.loads, item.value) if large else orjson.loads(item.value)
            again["apiVersion"] = resource.group_version
            return again
        if resource.converter is None and resource.schema is resource.storage_schema and self._is_small_and_fresh():
            found: dict[str, Any] = orjson.loads(item.value)
            self.intact = not drop_malformed_fields(found["metadata"])
            found["apiVersion"] = resource.group_version
            return found
        if resource.converter is None:
            return await load_one(self._served, item)
        if not self._converted:
            self._converted = orjson.dumps(await load_one(self._served, item))
        obj: dict[str, Any] = orjson.loads(self._converted)
        return obj

    def _is_small_and_fresh(self) -> bool:
        return len(self.item.value) <= Inline.TRANSFORM and self.item.mod_revision >= self._served.fresh_since


async def _decode_item(served: Served, item: KeyValue) -> tuple[dict[str, Any], CompiledSchema]:
    if len(item.value) > Inline.TRANSFORM:
        return await offload(_decode, served, item)
    return _decode(served, item)


def _decode(served: Served, item: KeyValue) -> tuple[dict[str, Any], CompiledSchema]:
    """A stored object in the version in which it is stored, and that version's schema, which it obeys."""
    resource = served.resource
    obj: dict[str, Any] = orjson.loads(item.value)
    # What others have written into the store may be of the wrong types; it has to be possible to repair and to delete it.
    drop_malformed_fields(obj["metadata"])
    if item.mod_revision >= served.fresh_since:
        return obj, resource.storage_schema
    schema = resource.stored_schemas.get(obj["apiVersion"], resource.storage_schema)
    schema.prune(obj)
    # A schema that asks for more than this is read without the rest of it: the object can still be seen, changed and deleted.
    with suppress(TooManyDefaultsError):
        schema.default(obj, _FILLED_ON_READ)
    return obj, schema


def _served_form(resource: ServedResource, obj: dict[str, Any], schema: CompiledSchema | None) -> dict[str, Any]:
    """An object that obeys `schema` (None: none at all) as the served version has it."""
    obj["apiVersion"] = resource.group_version
    if resource.schema is not schema:
        resource.schema.prune(obj)
        resource.schema.complete(obj)
    return obj


async def to_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """An object of the served version in the storage version.

    The storage version's defaults, which upstream fills in whenever it reads, are stored: an object as new as its CRD is read without
    changes.

    Raises:
        StatusError: 413 where they make it too large.
    """
    converted = resource.converter is not None and resource.group_version != resource.storage_group_version
    if converted:
        assert resource.converter is not None
        (obj,) = await resource.converter([obj], resource.storage_group_version)
    obj["apiVersion"] = resource.storage_group_version
    if converted or resource.schema is not resource.storage_schema:
        resource.storage_schema.prune(obj)
        try:
            resource.storage_schema.default(obj)
        except TooManyDefaultsError as error:
            raise errors.too_large(MAX_FILLED) from error
        resource.storage_schema.complete(obj)
    else:
        # A create drops the status, which may have a default of its own (`customResourceStrategy.PrepareForCreate`).
        resource.storage_schema.restore_defaults(obj)
    return obj


async def from_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """An object of the storage version, as just written, in the served version."""
    if resource.converter is not None and resource.group_version != resource.storage_group_version:
        (obj,) = await resource.converter([obj], resource.group_version)
        return _served_form(resource, obj, None)
    return _served_form(resource, obj, resource.storage_schema)
