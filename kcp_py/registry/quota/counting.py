"""Counting anew what the objects in the store use of a quota."""

from __future__ import annotations

import asyncio
from typing import Final

import orjson

from kcp_py.apimachinery.amounts import Amounts
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.quantity import Quantity
from kcp_py.logicalcluster import Name
from kcp_py.registry.quota.podresources import ONE, ZERO
from kcp_py.registry.quota.quotas import Quota
from kcp_py.registry.quota.usage import evaluator_of
from kcp_py.storage.contract import Storage
from kcp_py.storage.keys import CUSTOM_RESOURCES, InvalidSegmentError, resource_keys

_PAGE: Final = 500


async def count(storage: Storage, root: str, cluster: Name, quota: Quota) -> Amounts:
    """The usage of a quota. It is exact where the quota did not change meanwhile: each write that it counts changes it.

    Args:
        storage: the store.
        root: its prefix, such as `/registry`.
        cluster: of the quota.
        quota: as it is stored.

    Raises:
        StorageError: the store could not be read.
    """
    used = {}
    for resource, names in quota.counted.items():
        found = dict.fromkeys(names, ZERO)
        for prefix in _prefixes(root, cluster, quota, resource):
            await _count_below(storage, prefix, quota, resource, found)
        used.update(found)
    return used


def _prefixes(root: str, cluster: Name, quota: Quota, resource: GroupResource) -> list[str]:
    """Where objects of a resource are, whether it is built in or a CRD defines it."""
    prefixes = []
    for identity in ("", CUSTOM_RESOURCES):
        try:
            keys = resource_keys(root, resource.group, resource.resource, namespaced=True, identity=identity)
        except InvalidSegmentError:
            return []  # no resource has such a name
        prefixes.append(keys.cluster_prefix(cluster) if quota.cluster_wide else keys.namespace_prefix(cluster, quota.namespace))
    return prefixes


async def _count_below(storage: Storage, prefix: str, quota: Quota, resource: GroupResource, found: dict[str, Quantity]) -> None:
    """Add the usage of the objects under a prefix to `found`."""
    evaluator = evaluator_of(resource)
    if evaluator.constant:
        if not quota.scopes:
            total = (await storage.range(prefix, limit=1, count=True, keys_only=True)).total
            found |= {name: before.plus(Quantity(total * ONE.nano, "DecimalSI", 0)) for name, before in found.items()}
        return
    start = ""
    while True:
        page = await storage.range(prefix, start=start, limit=_PAGE)
        for item in page.items:
            obj = orjson.loads(item.value)
            if quota.covers(evaluator, obj):
                usage = evaluator.usage(obj)
                found |= {name: before.plus(usage.get(name, ZERO)) for name, before in found.items()}
        if not page.more:
            return
        start = page.items[-1].key + "\x00"
        await asyncio.sleep(0)
