"""Deletions by the server itself: collections of a namespace, a CRD or a cluster, and finalizers that controllers take away.

Objects are deleted as they are stored. They are decoded where they have finalizers, where their kind has rules of its own about deletion,
and where an admission plugin asks for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import attributes_of
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Served
from kcp_py.registry.store.access import Access, holds
from kcp_py.registry.store.defaults import removal, replacement_of
from kcp_py.registry.store.delete import mark
from kcp_py.registry.store.read import load_one, to_storage
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Operation, Put, StorageError
from kcp_py.storage.keys import ResourceKeys

_CONCURRENT: Final = 128
"""Objects that are deleted at the same time: enough for the store to commit them as a group, few enough for others to get their turn."""
_SMALLEST_PAGE: Final = 8

_FINALIZERS: Final = b'"finalizers":['


class Remaining(NamedTuple):
    """What a deletion has left behind: objects that wait for their finalizers."""

    objects: int
    finalizers: Mapping[str, int]
    """Finalizer -> how many objects wait for it."""


class CollectionDeletion:
    """Deletes collections. Those that run at the same time share what the store is asked to do at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._running = 0

    async def run(
        self,
        keys: ResourceKeys,
        prefix: str,
        strategy: Strategy,
        *,
        cluster: Name,
        settled: Collection[str],
        served: Callable[[], Awaitable[Served | None]] | None = None,
        guard: Sequence[Compare] = (),
        request: WriteRequest | None = None,
    ) -> Remaining:
        """Delete every object under a prefix, or mark it where finalizers remain.

        Args:
            keys: of the resource.
            prefix: of the keys that are meant.
            strategy: of the kind.
            cluster: in which the objects are.
            settled: finalizers that are not waited for.
            served: finds the custom resource as it is served, if it is. An object that is marked counts as written under the present CRD,
                and has to obey it.
            guard: has to hold whenever something is deleted.
            request: the deletion of any object as admission sees it; None where no plugin asks for deletions of the resource, or where it
                is not served, so that no plugin could read its objects.

        Returns:
            What waits for finalizers.

        Raises:
            StatusError: 409 where the guard does not hold any more; the first refusal by admission, when all other objects are gone.
            Exception: a plugin failed, when all other objects are gone.
            StorageError: the store could not be read or written; deleted objects stay deleted.
        """
        one_pass = _Pass(self._access, keys, cluster, strategy=strategy, settled=settled, served=served, guard=guard, request=request)
        start = ""
        self._running += 1
        try:
            while True:
                limit = max(_SMALLEST_PAGE, _CONCURRENT // self._running)
                page = await self._access.storage.range(prefix, start=start, limit=limit)
                # No deletion goes on in the background once the caller gets an error.
                outcomes = await asyncio.gather(*map(one_pass.delete, page.items), return_exceptions=True)
                for failure in outcomes:
                    if failure is not None:
                        raise failure
                if not page.more:
                    if one_pass.refusal is not None:
                        raise one_pass.refusal
                    return Remaining(one_pass.left, one_pass.finalizers)
                start = page.items[-1].key + "\x00"
        finally:
            self._running -= 1


def holder_gone(key: str) -> StatusError:
    """409 where the objects of a namespace, a CRD or a cluster are to be deleted that is gone."""
    return StatusError(409, "Conflict", f"{key} is gone, or another object of the same name")


async def remove_finalizer(
    access: Access, keys: ResourceKeys, item: KeyValue | None, strategy: Strategy, *, finalizer: str, uid: str, request: WriteRequest
) -> bool:
    """Take a finalizer from an object that is being deleted, and with the last one the object.

    Args:
        access: the store.
        keys: of the resource.
        item: the object as stored; None where it is gone.
        strategy: of the kind.
        finalizer: in the metadata, or in the spec of a namespace.
        uid: of the object that is meant.
        request: the update as admission sees it.

    Returns:
        Whether anything was changed.

    Raises:
        StaleStateError: what the removal relied on has changed.
    """
    target = request.target
    admitted = access.admission.sees("UPDATE", target.cluster_state.name, target.resource.group_resource)
    while item is not None:
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        if metadata["uid"] != uid or not metadata.get("deletionTimestamp") or finalizer not in _finalizers(obj):
            return False
        compares = [Compare(item.key, mod_revision=item.mod_revision)]
        _strip(obj, {finalizer})
        if admitted or strategy.has_pending_finalizers(obj):
            # Written again, it counts as an object that obeys the present CRD.
            obj = await _freed(access, request, item, finalizer, compares)
        operations: Sequence[Operation]
        if strategy.has_pending_finalizers(obj):
            compares += target.served.guards
            operations = (Put(item.key, encode_stored(obj)),)
        else:
            replacement = await replacement_of(access, target.cluster_state, target.served, metadata)
            conditions, operations = removal(target.cluster_state, target.served, item, replacement)
            compares += conditions
        try:
            await access.transact(target.cluster_state.name, keys, compares, operations)
        except ConflictError as conflict:
            if conflict.key != item.key:
                raise StaleStateError(conflict.key) from conflict
            item = conflict.current
        else:
            return True
    return False


async def _freed(access: Access, request: WriteRequest, item: KeyValue, finalizer: str, compares: list[Compare]) -> dict[str, Any]:
    """A stored object without a finalizer, admitted and in the form in which it is stored now.

    Args:
        access: the store.
        request: the update as admission sees it.
        item: the object as stored.
        finalizer: the one to remove.
        compares: gets the conditions of plugins.

    Raises:
        StatusError: a plugin refuses the update.
    """
    target = request.target
    obj = await load_one(target.served, item)
    _strip(obj, {finalizer})
    if access.admission.sees("UPDATE", target.cluster_state.name, target.resource.group_resource):
        old = await load_one(target.served, item)
        attributes = attributes_of(
            "UPDATE", request, target.namespace, target.name, obj=obj, old=old, compares=compares, revision=item.mod_revision
        )
        await access.admission.mutate(attributes)
        await access.admission.validate(attributes)
    return await to_storage(target.resource, obj)


class _Pass:
    """One pass over a collection."""

    def __init__(
        self,
        access: Access,
        keys: ResourceKeys,
        cluster: Name,
        *,
        strategy: Strategy,
        settled: Collection[str],
        served: Callable[[], Awaitable[Served | None]] | None,
        guard: Sequence[Compare],
        request: WriteRequest | None,
    ) -> None:
        self._access = access
        self._keys = keys
        self._cluster = cluster
        self._guard = guard
        self._served = served
        self._strategy = strategy
        self._settled = frozenset(settled)
        self._request = request
        self.refusal: Exception | None = None
        """The first refusal by admission, or the error of a plugin that failed. The other objects are deleted all the same."""
        kind = type(strategy)
        self._plain = (
            kind.prepare_for_delete is Strategy.prepare_for_delete and kind.has_pending_finalizers is Strategy.has_pending_finalizers
        )
        self.left = 0
        self.finalizers: Counter[str] = Counter()

    async def delete(self, item: KeyValue) -> None:
        """Delete or mark one object, whatever becomes of it meanwhile."""
        current: KeyValue | None = item
        while current is not None:
            operation: Put | Delete | None = Delete(current.key)
            awaited: Sequence[str] = ()
            compares: Sequence[Compare] = (*self._guard, Compare(current.key, mod_revision=current.mod_revision))
            if not self._plain or _FINALIZERS in current.value:
                operation, awaited = self._operation(current)
            if operation is not None and self._request is not None:
                try:
                    compares = (*compares, *await self._admitted(self._request, current))
                except StorageError:
                    raise
                except Exception as refusal:  # noqa: BLE001 - plugins are code of others
                    self.refusal = self.refusal or refusal
                    self.left += 1
                    return
            try:
                if isinstance(operation, Put) and self._served is not None and (served := await self._served()) is not None:
                    compares = (*compares, *served.guards)
                    operation = Put(current.key, await self._marked(current, served))
                if operation is not None:
                    await self._access.transact(self._cluster, self._keys, compares, (operation,))
            except ConflictError as conflict:
                if conflict.key == current.key:
                    current = conflict.current
                    continue
                if any(compare.key == conflict.key for compare in self._guard) and not await holds(self._access.storage, self._guard):
                    raise holder_gone(conflict.key) from conflict
                # The CRD changed, or a condition of an admission plugin does not hold any more: the object is still there, and
                # the next pass asks again.
                self.left += 1
                self.finalizers.update(awaited)
                return
            if not isinstance(operation, Delete):
                self.left += 1
                self.finalizers.update(awaited)
            return

    async def _admitted(self, request: WriteRequest, item: KeyValue) -> Sequence[Compare]:
        """Ask admission about the deletion of one object.

        Returns:
            What has to hold when it is deleted.

        Raises:
            StatusError: a plugin refuses it.
        """
        key = self._keys.locate(item.key)
        compares: list[Compare] = []
        old = await load_one(request.target.served, item)
        attributes = attributes_of(
            "DELETE", request, key.namespace, key.name, obj=None, old=old, compares=compares, revision=item.mod_revision
        )
        await self._access.admission.mutate(attributes)
        await self._access.admission.validate(attributes)
        return compares

    def _operation(self, item: KeyValue) -> tuple[Put | Delete | None, Sequence[str]]:
        """What has to be done with an object that may have to wait (None: it waits already), and what it waits for."""
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        terminating = bool(metadata.get("deletionTimestamp"))
        if not terminating:
            self._strategy.prepare_for_delete(obj)
        freed = obj
        if self._settled:
            # A copy: what still has to wait keeps its finalizers.
            freed = {**obj, "metadata": dict(metadata), **({"spec": dict(obj["spec"])} if isinstance(obj.get("spec"), dict) else {})}
            _strip(freed, self._settled)
        if not self._strategy.has_pending_finalizers(freed):
            return Delete(item.key), ()
        awaited = _finalizers(freed)
        if terminating:
            return None, awaited
        self._mark(obj)
        return Put(item.key, encode_stored(obj)), awaited

    async def _marked(self, item: KeyValue, served: Served) -> bytes:
        """A custom resource, marked, in the form that its present CRD gives it."""
        obj = await load_one(served, item)
        self._mark(obj)
        return encode_stored(await to_storage(served.resource, obj))

    def _mark(self, obj: dict[str, Any]) -> None:
        mark(obj["metadata"], self._access.now(), first=self._strategy.is_marked_first)


def _finalizers(obj: dict[str, Any]) -> list[str]:
    """Those of the metadata, and those of a namespace's spec."""
    found = list(obj["metadata"].get("finalizers") or ())
    if _is_namespace(obj):
        found += (obj.get("spec") or {}).get("finalizers") or ()
    return found


def _strip(obj: dict[str, Any], finalizers: Collection[str]) -> None:
    """Take finalizers out, in place, wherever they stand."""
    for owner in (obj["metadata"], obj.get("spec") or {}) if _is_namespace(obj) else (obj["metadata"],):
        before = owner.get("finalizers")
        if not before:
            continue
        after = [finalizer for finalizer in before if finalizer not in finalizers]
        if after:
            owner["finalizers"] = after
        else:
            del owner["finalizers"]


def _is_namespace(obj: dict[str, Any]) -> bool:
    return (obj["apiVersion"], obj["kind"]) == ("v1", "Namespace")
