"""Controller `resourcequota-controller`: counts again all that ResourceQuotas count, and repairs changes of the store itself.

Source: kubernetes `pkg/controller/resourcequota`. Quotas are exact without it: each write charges them, and each write of a quota has it
counted at once (`registry.quota`). So it only looks at each quota once an hour, see `--resource-quota-sync-period`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import ObjectChange, Tap
from kcp_py.controllers.names import RESOURCE_QUOTA
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key

RESOURCE_QUOTAS: Final = GroupVersionResource("", "v1", "resourcequotas")


class ResourceQuotaController:
    """Has each quota counted again from time to time, spread evenly."""

    name = RESOURCE_QUOTA
    per_cluster = 1

    def __init__(self, tap: Tap, *, period: float = 3600.0, spread: Callable[[], float] = random.random) -> None:
        """Make the controller.

        Args:
            tap: has the server count a quota.
            period: seconds between two counts of a quota.
            spread: when in the first period a quota is counted, from 0 to 1.
        """
        self._tap = tap
        self._period = period
        self._spread = spread
        self._known: set[Key] = set()
        self._new: set[Key] = set()

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """All quotas."""
        return (ControllerSource(RESOURCE_QUOTAS, self.keys),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """A quota that was not seen before. Its other changes are mostly charges."""
        key = Key(change.cluster, change.namespace, change.name)
        if change.value is None:
            self._known.discard(key)
            self._new.discard(key)
        elif key not in self._known:
            self._known.add(key)
            self._new.add(key)
            yield key

    async def reconcile(self, key: Key) -> int | Later:
        if key not in self._known:
            return 0
        if key in self._new:
            self._new.discard(key)
            return Later(self._period * self._spread())
        await self._tap.recount_quota(key.cluster, key.namespace, key.name)
        return Later(self._period)
