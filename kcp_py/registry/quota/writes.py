"""Writes that wait for their quotas and limits, and those of one cluster as they were read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import NO_LIMITS, NOTHING, Limits, Used, exceeded
from kcp_py.registry.quota.growth import Growth, added
from kcp_py.registry.quota.quotas import Change, Quota, charged
from kcp_py.registry.quota.usage import evaluator_of
from kcp_py.storage.contract import Compare, ConflictError, KeyValue, Operation, Put, Storage
from kcp_py.storage.keys import ResourceKeys, resource_of, route_of

MOST_TERMS: Final = 100
"""Compares or operations of writes in one transaction: etcd takes 128 by default."""
MOST_QUOTAS: Final = 100
"""Quotas that may count one object: each of them is a condition of the transaction that stores it."""
MOST_BYTES: Final = 1024 * 1024
"""Values of writes in one transaction: etcd takes 1.5 MiB in a request."""

_QUOTAS: Final = GroupResource("", "resourcequotas")


class Usage(NamedTuple):
    """What a cluster uses, as it is stored. It exists for clusters with limits."""

    key: str
    mod_revision: int
    used: Used | None
    """None where it has to be counted."""


class View(NamedTuple):
    """The quotas and the limits of one cluster."""

    cluster: Name
    guard: int
    """`mod_revision` of the cluster's guard, see `QuotaLedger`; 0 where there is none."""
    quotas: Mapping[str, Quota]
    """By key."""
    limits: Limits = NO_LIMITS
    usage: Usage | None = None
    """None where the cluster has had no limits."""

    def concerns(self, resource: GroupResource, namespace: str) -> bool:
        """Whether any quota counts objects of a resource in a namespace."""
        return any(quota.concerns(namespace) and resource in quota.counted for quota in self.quotas.values())

    @property
    def revisions(self) -> tuple[int, int, Mapping[str, int]]:
        """What tells whether the view is still right."""
        usage = self.usage.mod_revision if self.usage is not None else 0
        return self.guard, usage, {key: quota.mod_revision for key, quota in self.quotas.items()}

    def replaced(self, quota: Quota) -> View:
        """The view after a write of a quota by the ledger."""
        return self._replace(quotas={**self.quotas, quota.key: quota})

    def with_used(self, used: Used | None, revision: int) -> View:
        """The view after a write of the usage with a transaction; None where it was not written."""
        if used is None or self.usage is None:
            return self
        return self._replace(usage=Usage(self.usage.key, revision, used))

    def used_after(self, growth: Used | None, operations: Sequence[Operation], quota_prefix: str) -> Used | None:
        """What the cluster uses after a transaction; None where the usage is not kept or does not change.

        Args:
            growth: what its writes add, without the bytes of quotas; None where none of them changes anything. Changes that add up to
                nothing are changes: a count that goes on meanwhile may have seen a part of them.
            operations: all of it; the ledger changes the sizes of quotas.
            quota_prefix: of the keys of quotas.
        """
        if self.usage is None or self.usage.used is None:
            return None
        size = 0
        for operation in operations:
            if operation.key.startswith(quota_prefix):
                before = self.quotas.get(operation.key)
                size += (len(operation.value) if isinstance(operation, Put) else 0) - (before.size if before is not None else 0)
        if growth is None and not size:
            return None
        return self.usage.used.plus(added(growth or NOTHING, Used(size=size)))


class Write:
    """A transaction that waits until its cluster's quotas are charged."""

    __slots__ = (
        "alone",
        "changes",
        "compares",
        "dry_run",
        "filled",
        "future",
        "growth",
        "limited",
        "operations",
        "prefix",
        "recounted",
        "single",
        "size",
        "touched",
    )

    def __init__(
        self,
        prefix: str,
        compares: Sequence[Compare] = (),
        operations: Sequence[Operation] = (),
        *,
        changes: Sequence[Change] = (),
        alone: bool = False,
        dry_run: bool = False,
        limited: bool = True,
        filled: bool = False,
        recounted: str = "",
    ) -> None:
        """A write.

        Args:
            prefix: of the resource.
            compares: its conditions.
            operations: what it does.
            changes: what it does to objects that quotas count.
            alone: whether it changes quotas or limits, so that no other write shares its transaction.
            dry_run: whether it is only checked.
            limited: whether it is refused where it exceeds a limit of the cluster.
            filled: whether the quotas that it stores get the status that they lack.
            recounted: the key of a quota or of the usage that is to be counted anew, instead of a write.
        """
        self.future: Final[asyncio.Future[int]] = asyncio.get_running_loop().create_future()
        self.prefix, self.compares, self.operations, self.changes = prefix, compares, operations, changes
        self.alone, self.dry_run, self.filled, self.recounted = alone, dry_run, filled, recounted
        self.limited = limited
        self.growth: Growth | None = None
        """What it does to the usage of the cluster; None until that is worked out, in clusters with limits."""
        self.single = False
        """Whether no other write shares its transaction."""
        self.touched: Final = frozenset(operation.key for operation in operations)
        self.size: Final = sum(len(operation.value) for operation in operations if isinstance(operation, Put))

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless the caller is gone."""
        if not self.future.done():
            self.future.set_exception(error)

    def finish(self, revision: int) -> None:
        """Answer, unless the caller is gone."""
        if not self.future.done():
            self.future.set_result(revision)


class Batch:
    """Writes that one transaction carries out together, with what they use of each quota."""

    def __init__(self, view: View) -> None:
        """A batch without writes."""
        self.view: Final = view
        self.writes: Final[list[Write]] = []
        self.used: Final[dict[str, Mapping[str, Any]]] = {}
        """Key of a quota -> its usage after the batch, for those that change."""
        self.growth: Used | None = None
        """What the writes do to the usage of the cluster; None where none of them changes it."""
        self.exceeded = ""
        """The limit of the cluster that the write exceeds which was charged last, a member of `Used`; empty for none."""
        self._written: set[str] = set()
        self._compared: set[str] = set()
        self._size = 0
        self._operations = 0

    def has_room(self, write: Write) -> bool:
        """Whether a write can be in the transaction: within its bounds, and independent of the writes that are in it."""
        if not self.writes:
            return True
        if any(one.single or one.alone for one in (write, self.writes[0])):
            return False
        compared = {compare.key for compare in write.compares}
        return (
            len(self._compared | compared) <= MOST_TERMS
            and self._operations + len(write.operations) <= MOST_TERMS
            and self._size + write.size <= MOST_BYTES
            and self._written.isdisjoint(write.touched)
            and self._written.isdisjoint(compared)
            and self._compared.isdisjoint(write.touched)
        )

    def is_crowded(self, write: Write, used: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether there is no room left for the quotas that a write charges. `used` is what `charge` found."""
        if not self.writes or not (self.used or used):
            return False
        keys = self.used.keys() | used.keys()
        compared = self._compared | {compare.key for compare in write.compares}
        size = self._size + write.size + sum(self.view.quotas[key].size for key in keys)
        return len(compared) + len(keys) > MOST_TERMS or size > MOST_BYTES

    def charge(self, write: Write) -> Mapping[str, Mapping[str, Any]]:
        """What the quotas that a write changes have as their usage after it.

        Raises:
            StatusError: 403, it exceeds one, or a limit of the cluster, or it stores one quota too many.
        """
        self._check_limits(write)
        if write.filled:
            self._check_number(write)
        found: dict[str, Mapping[str, Any]] = {}
        for change in write.changes:
            for key, quota in self.view.quotas.items():
                if key in write.touched or not quota.concerns(change.namespace):
                    continue
                used = found.get(key) or self.used.get(key) or quota.used
                if (after := charged(quota, used, change)) is not None:
                    found[key] = after
        return found

    def _check_limits(self, write: Write) -> None:
        usage, growth, limits = self.view.usage, write.growth, self.view.limits
        if usage is None or usage.used is None or growth is None:
            return
        used = usage.used.plus(self.growth or NOTHING)
        self.exceeded = exceeded(limits, used, growth.refused)
        if member := self.exceeded:
            before, more = getattr(used, member), getattr(growth.refused, member)
            detail = f"{limits.reached(self.view.cluster, member)}: {before} used, {more} requested"
            raise errors.forbidden(growth.resource, growth.name, detail)

    def _check_number(self, write: Write) -> None:
        for operation in write.operations:
            if not isinstance(operation, Put) or not operation.key.startswith(write.prefix):
                continue
            quota, before = Quota(KeyValue(operation.key, operation.value, 0, 0)), self.view.quotas.get(operation.key)
            if before is not None and (before.cluster_wide or not quota.cluster_wide):
                continue
            others = [one for key, one in self.view.quotas.items() if key != operation.key]
            counting = sum(one.cluster_wide for one in others)
            of_namespaces = Counter(one.namespace for one in others if not one.cluster_wide)
            counting += max(of_namespaces.values(), default=0) if quota.cluster_wide else of_namespaces[quota.namespace]
            if counting >= MOST_QUOTAS:
                detail = f"at most {MOST_QUOTAS} resource quotas can count the objects of a namespace"
                raise errors.forbidden(_QUOTAS, quota.name, detail)

    def add(self, write: Write, used: Mapping[str, Mapping[str, Any]]) -> None:
        """Take a write in. `used` is what `charge` found."""
        self.writes.append(write)
        self.used.update(used)
        if write.growth is not None and write.growth.used != NOTHING:
            # The sizes of quotas are known when their transaction is put together.
            more = write.growth.used
            self.growth = added(self.growth or NOTHING, more._replace(size=0) if write.alone else more)
        self._written |= write.touched
        self._compared.update(compare.key for compare in write.compares)
        self._size += write.size
        self._operations += len(write.operations)


def rebased(write: Write, view: View) -> tuple[Sequence[Compare], Sequence[Operation]]:
    """The transaction of a write of quotas, on the quotas as they are.

    A quota that was read before the ledger charged it has the same specification: a write of it does not conflict with the charge.
    Otherwise a quota in heavy use could not be changed.
    """
    charged = {
        compare.key: quota
        for compare in write.compares
        if (quota := view.quotas.get(compare.key)) is not None and quota.since <= (compare.mod_revision or 0) < quota.mod_revision
    }
    compares = [
        compare._replace(mod_revision=charged[compare.key].mod_revision) if compare.key in charged else compare
        for compare in write.compares
    ]
    operations = [
        Put(operation.key, Quota(KeyValue(operation.key, operation.value, 0, 0)).with_usage(charged[operation.key].used))
        if isinstance(operation, Put) and operation.key in charged
        else operation
        for operation in write.operations
    ]
    return compares, operations


async def changes_of(
    storage: Storage, keys: ResourceKeys, compares: Sequence[Compare], operations: Sequence[Operation], *, enforced: bool
) -> list[Change]:
    """What a transaction does to the objects of its resource, as far as quotas can count it.

    Args:
        storage: the store.
        keys: of the resource.
        compares: the conditions; those on the objects tell which of them exist.
        operations: the changes.
        enforced: see `Change`.

    Raises:
        ConflictError: an object is not any more what the conditions say.
    """
    resource = resource_of(keys.prefix, keys.root)
    evaluator = evaluator_of(resource)
    revisions = {compare.key: compare.mod_revision for compare in compares if compare.mod_revision is not None}
    found = []
    for operation in operations:
        key = operation.key
        route = route_of(key, keys.root) if key.startswith(keys.prefix) else None
        if route is None or route.prefix != keys.prefix:
            continue
        value = operation.value if isinstance(operation, Put) else None
        created = revisions.get(key) == 0
        before: Mapping[str, Any] | None = None
        after: Mapping[str, Any] | None = None
        if evaluator.constant:
            before, after = (None if created else {}), (None if value is None else {})
        else:
            if not created:
                item = await storage.get(key)
                if key in revisions and (item.mod_revision if item is not None else 0) != revisions[key]:
                    raise ConflictError(key, item)
                before = None if item is None else orjson.loads(item.value)
            after = None if value is None else orjson.loads(value)
        if not evaluator.constant or (before is None) is not (after is None):
            found.append(Change(resource, route.namespace, route.name, before, after, enforced))
    return found
