"""The transaction of a batch: its writes, the charges of quotas, and what becomes of the usage and of the guard of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from kcp_py.registry.quota.views import UNCOUNTED, Views
from kcp_py.registry.quota.writes import Batch, View, Write, rebased
from kcp_py.storage.contract import Compare, Delete, Operation, Put


def transaction_of(views: Views, batch: Batch) -> tuple[Sequence[Compare], Sequence[Operation], set[str]]:
    """The compares, the operations and the prefixes of the resources of a batch that has writes, without the usage of the cluster."""
    view, writes = batch.view, batch.writes
    guards = (Compare(views.guard(view.cluster), mod_revision=view.guard),) if views.shared else ()
    charges = [(view.quotas[key], used) for key, used in batch.used.items()]
    compares: dict[Compare, None] = dict.fromkeys(guards)
    compares |= dict.fromkeys(Compare(quota.key, mod_revision=quota.mod_revision) for quota, _ in charges)
    operations: list[Operation] = []
    for write in writes:
        own, changed = rebased(write, view) if write.alone else (write.compares, write.operations)
        compares |= dict.fromkeys(own)
        operations += changed
    operations += (Put(quota.key, quota.with_usage(used)) for quota, used in charges)
    if writes[0].alone:
        own, changed = _kept_keys(views, view, writes[0])
        compares |= dict.fromkeys(own)
        operations += changed
    prefixes = {write.prefix for write in writes}
    return [*compares], operations, prefixes | {views.quota_keys.prefix} if charges else prefixes


def _kept_keys(views: Views, view: View, write: Write) -> tuple[Sequence[Compare], Sequence[Operation]]:
    """What becomes of the usage and of the guard with a write of quotas or of the LogicalCluster."""
    usage, operations = view.usage, list[Operation]()
    compares: Sequence[Compare] = ()
    kept = usage is not None
    if write.prefix == views.cluster_keys.prefix:
        key = views.usage(view.cluster)
        compares = (Compare(key, mod_revision=usage.mod_revision if usage is not None else 0),)
        own = next((one for one in write.operations if isinstance(one, Put) and one.key.startswith(write.prefix)), None)
        kept = own is not None and views.limits(view.cluster, own.value).counted
        if kept:
            # Other limits are a reason to count again.
            operations.append(Put(key, UNCOUNTED))
        elif usage is not None:
            operations.append(Delete(key))
    if views.shared:
        left = {key for key in view.quotas if key not in write.touched}
        left |= {
            operation.key
            for operation in write.operations
            if isinstance(operation, Put) and operation.key.startswith(views.quota_keys.prefix)
        }
        guard = views.guard(view.cluster)
        operations.append(Put(guard, b"1") if left or kept else Delete(guard))
    return compares, operations
