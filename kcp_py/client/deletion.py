"""Deleting many objects at once, as they are stored: nothing is decoded that has no say in its own deletion."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.contract import Remaining
from kcp_py.registry.rendering import encode_stored
from kcp_py.registry.resource import Served
from kcp_py.registry.scope import StaleScopeError
from kcp_py.registry.store import Access, load_one
from kcp_py.registry.store.access import definition_compares, holds
from kcp_py.registry.store.delete import mark
from kcp_py.registry.store.read import to_storage
from kcp_py.registry.strategy import Strategy
from kcp_py.storage.contract import Compare, ConflictError, Delete, KeyValue, Operation, Put

_CONCURRENT: Final = 128
"""Objects that are deleted at the same time: enough for the store to commit them as a group, few enough for others to get their turn."""
_SMALLEST_PAGE: Final = 8

_FINALIZERS: Final = b'"finalizers":['


class CollectionDeletion:
    """Deletes collections. Those that run at the same time share what the store is asked to do at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._running = 0

    async def run(
        self,
        prefix: str,
        strategy: Strategy,
        *,
        settled: Collection[str],
        served: Callable[[], Awaitable[Served | None]] | None = None,
        guard: Sequence[Compare] = (),
    ) -> Remaining:
        """Delete every object under a prefix, or mark it where finalizers remain.

        Args:
            prefix: of the keys.
            strategy: of the kind.
            settled: finalizers that are not waited for.
            served: finds the custom resource as it is served, if it is. An object that is marked counts as written under the present
                definition, and has to obey it.
            guard: has to hold whenever something is deleted.

        Returns:
            What waits for finalizers.

        Raises:
            StatusError: 409 where the guard does not hold any more.
            StorageError: the store could not be read or written; what was deleted stays deleted.
        """
        one_pass = _Pass(self._access, strategy, settled, served, guard=guard)
        start = ""
        self._running += 1
        try:
            while True:
                limit = max(_SMALLEST_PAGE, _CONCURRENT // self._running)
                page = await self._access.storage.range(prefix, start=start, limit=limit)
                if page.items:
                    await asyncio.gather(*map(one_pass.delete, page.items))
                if not page.more:
                    return Remaining(one_pass.left, one_pass.finalizers)
                start = page.items[-1].key + "\x00"
        finally:
            self._running -= 1


def holder_gone(key: str) -> StatusError:
    """409 where the objects of a namespace, a CRD or a cluster are to be deleted that is gone."""
    return StatusError(409, "Conflict", f"{key} is gone, or another object of the same name")


Removal = Callable[[KeyValue, dict[str, Any]], tuple[Sequence[Compare], Sequence[Operation]]]
"""The transaction with which an object goes: (as it is stored, its metadata) -> conditions and operations."""


def plain_removal(item: KeyValue, metadata: dict[str, Any]) -> tuple[Sequence[Compare], Sequence[Operation]]:
    """The `Removal` of an object that nothing takes the place of."""
    del metadata
    return (Compare(item.key, mod_revision=item.mod_revision),), (Delete(item.key),)


async def remove_finalizer(
    access: Access, key: str, strategy: Strategy, *, finalizer: str, uid: str, removal: Removal = plain_removal
) -> bool:
    """Take a finalizer from an object that is being deleted, and with the last one the object.

    Returns:
        Whether anything was changed.

    Raises:
        StaleScopeError: what the removal relied on has changed.
    """
    item = await access.storage.get(key)
    while item is not None:
        obj: dict[str, Any] = orjson.loads(item.value)
        metadata = obj["metadata"]
        if metadata["uid"] != uid or not metadata.get("deletionTimestamp") or finalizer not in _finalizers(obj):
            return False
        _strip(obj, {finalizer})
        compares: Sequence[Compare] = (Compare(key, mod_revision=item.mod_revision),)
        operations: Sequence[Operation] = (Put(key, encode_stored(obj)),)
        if not strategy.has_pending_finalizers(obj):
            compares, operations = removal(item, metadata)
        try:
            await access.storage.transact(compares, operations)
        except ConflictError as conflict:
            if conflict.key != key:
                raise StaleScopeError(conflict.key) from conflict
            item = conflict.current
        else:
            return True
    return False


class _Pass:
    """One pass over a collection."""

    def __init__(
        self,
        access: Access,
        strategy: Strategy,
        settled: Collection[str],
        served: Callable[[], Awaitable[Served | None]] | None,
        *,
        guard: Sequence[Compare],
    ) -> None:
        self._access = access
        self._guard = guard
        self._served = served
        self._strategy = strategy
        self._settled = frozenset(settled)
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
            try:
                if isinstance(operation, Put) and self._served is not None and (served := await self._served()) is not None:
                    compares = (*compares, *definition_compares(served))
                    operation = Put(current.key, await self._marked(current, served))
                if operation is not None:
                    await self._access.storage.transact(compares, (operation,))
            except ConflictError as conflict:
                if conflict.key == current.key:
                    current = conflict.current
                    continue
                if any(compare.key == conflict.key for compare in self._guard) and not await holds(self._access.storage, self._guard):
                    raise holder_gone(conflict.key) from conflict
                # The definition changed: whoever waits for the object comes again.
            if not isinstance(operation, Delete):
                self.left += 1
                self.finalizers.update(awaited)
            return

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
        """A custom resource, marked, in the form that its present definition gives it."""
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
