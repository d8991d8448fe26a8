"""`DecodedObjects`: custom resources as updates have left them, decoded, so that the next update of one begins without decoding.

A decoded object is found by its key, and used only where its bytes and its resource are those that a write has just read. It is a function
of both, so it cannot be stale, cannot belong to another life of its cluster or its CRD, and obeys the schema of the request.

All writes of the object share it, and the objects that they make have parts of it. So nothing may change it or its parts in place. This
is sure where only views, the rules of `CustomResourceStrategy`, validation and the tracking of owners get them. Writes of kinds with other
rules or with conversions, and writes that admission plugins see, decode objects of their own.
"""

from __future__ import annotations

from operator import is_
from typing import Any, Final
from weakref import ref

import orjson

from kcp_py.aio.lru import LRU
from kcp_py.aio.offload import Inline
from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.managedfields.entries import Managed
from kcp_py.apimachinery.meta.decoding import drop_malformed_fields, prune_object_meta
from kcp_py.registry.custom_resources import CustomResourceStrategy
from kcp_py.registry.rendering import encode_stored, stored_form, strip_server_fields
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store.commonowners import CommonOwners
from kcp_py.registry.store.weights import decoded_weight
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.structural.default import TooManyDefaultsError
from kcp_py.storage.contract import KeyValue

DECODED_BYTES: Final = 32 * 1024 * 1024
"""Memory of all decoded objects, about."""
_COMMON_PART: Final = 16
"""The owners that are ready to be shared take so much less besides."""
_BOOKKEEPING: Final = 1536
"""Bytes of a kept object besides its stored form and its parts: its key, its places in tables, and what its managedFields say."""


class Decoded:
    """A decoded object, and facts about it that spare the next write some work. Its parts are never changed."""

    __slots__ = ("_conforms", "managed", "obj", "resource", "saved", "sound", "value")

    def __init__(self, value: bytes, resource: ServedResource, obj: dict[str, Any], *, conforms: bool | None = None) -> None:
        self.value: Final = value
        """The stored form."""
        # The compiled form of a CRD goes when no cluster uses it.
        self.resource: Final = ref(resource)
        self.obj: Final = obj
        """What `Current.load` makes of it."""
        self.managed: Managed | None = None
        """What its managedFields say; None where that has to be worked out."""
        self.saved = 0
        """Bytes of it that other objects have in common with it, about, see `CommonOwners.share`."""
        self.sound = False
        """Whether its metadata are known to be valid."""
        self._conforms = conforms

    @property
    def known_to_conform(self) -> bool:
        """Whether `conforms` has been found to hold."""
        return bool(self._conforms)

    def conforms(self) -> bool:
        """Whether the changes that requests undergo, such as pruning and defaults, leave the object as it is. It is worked out once.

        Only then requests may begin with parts of it: those changes are made in place. An object that other programs have written into
        the store may have fields that its schema does not have.
        """
        if self._conforms is None:
            resource = self.resource()
            self._conforms = resource is not None and len(self.value) <= Inline.TRANSFORM and _is_conforming(self.obj, resource.schema)
        return self._conforms


class DecodedObjects:
    """Bounded by memory; the objects that were written last stay."""

    def __init__(self, capacity: int = DECODED_BYTES) -> None:
        self._objects: LRU[str, Decoded] = LRU(capacity, weigh=_weight)
        self._common = CommonOwners(capacity // _COMMON_PART)

    def __len__(self) -> int:
        return len(self._objects)

    def find(self, served: Served, item: KeyValue) -> Decoded | None:
        """The decoded form of an item that was just read; None where items of the resource are not shared."""
        found = self._objects.peek(item.key)
        if item.mod_revision < served.fresh_since:
            return None
        if found is not None and found.resource() is served.resource and found.value == item.value:
            return found
        if not shares_objects(served.resource) or len(item.value) > Inline.TRANSFORM:
            return None
        obj: dict[str, Any] = orjson.loads(item.value)
        if drop_malformed_fields(obj["metadata"]):
            return None
        obj["apiVersion"] = served.resource.group_version
        return Decoded(item.value, served.resource, obj)

    def keep(self, key: str, decoded: Decoded) -> None:
        """Keep an object until memory is needed for others."""
        self._objects.set(key, decoded)

    def written(
        self,
        key: str,
        before: Decoded,
        resource: ServedResource,
        *,
        stored: dict[str, Any],
        value: bytes,
        managed: Managed | None,
        conforming: bool = True,
    ) -> None:
        """Keep an object that was just written.

        Args:
            key: of the object.
            before: what the write began with.
            resource: whose objects are shared.
            stored: the object in the storage version. Nothing changes its parts from now on.
            value: its stored form.
            managed: what its managedFields say; None where that has to be worked out.
            conforming: whether all that it does not have from `before` conforms.
        """
        obj = stored_form(stored)
        obj["apiVersion"] = resource.group_version
        conforms = (before.known_to_conform or None) if conforming else False
        decoded = Decoded(value, resource, obj, conforms=conforms)
        if managed is not None and bool(managed.owners) == ("managedFields" in obj["metadata"]):
            if before.managed is not None and _are_same(managed, before.managed):
                decoded.managed, decoded.saved = managed, before.saved
            elif managed.owners:
                decoded.managed, decoded.saved = self._common.share(managed, obj["metadata"]["managedFields"])
            else:
                decoded.managed = managed
        decoded.sound = True
        self._objects.set(key, decoded)

    def altered(self) -> list[str]:
        """The keys of objects that differ from their stored form. Code has changed them in place, which is a fault of the program."""
        return [key for key, one in self._objects.items() if not _is_intact(one)]


def shares_objects(resource: ServedResource) -> bool:
    """Whether writes of the objects of a resource leave what they get as it is."""
    return type(resource.strategy) is CustomResourceStrategy and resource.converter is None and resource.schema is resource.storage_schema


def _is_conforming(obj: dict[str, Any], schema: CompiledSchema) -> bool:
    copied: dict[str, Any] = orjson.loads(orjson.dumps(obj))
    strip_server_fields(copied)
    prune_object_meta(copied["metadata"])
    schema.prune(copied)
    try:
        schema.default(copied, Inline.TRANSFORM)
    except TooManyDefaultsError:
        return False
    return identical(copied, obj)


def _are_same(managed: Managed, before: Managed) -> bool:
    """Whether the sets of all managers are those before themselves, and so shared as those are."""
    owners, others = managed.owners, before.owners
    return len(owners) == len(others) and all(map(is_, owners.values(), others.values()))


def _weight(decoded: Decoded) -> int:
    value = decoded.value
    return _BOOKKEEPING + len(value) + decoded_weight(value) - decoded.saved


def _is_intact(decoded: Decoded) -> bool:
    resource = decoded.resource()
    return resource is None or encode_stored({**decoded.obj, "apiVersion": resource.storage_group_version}) == decoded.value
