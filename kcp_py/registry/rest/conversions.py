"""`WildcardConversions`: conversion webhooks of clusters in requests for all clusters, which none of them may hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served
from kcp_py.registry.store import load
from kcp_py.storage.contract import KeyValue

LONGEST_SECONDS: Final = 5.0
"""How long the objects of one cluster are waited for."""
_SUSPENDED_PER_SECOND: Final = 10
"""For each second that a failure took, the webhook is left alone for so many seconds."""
_LEAST_SUSPENDED_SECONDS: Final = 1.0
_MOST_SUSPENDED: Final = 10_000

_Place = tuple[Name, str]


class WildcardConversions:
    """Loads objects that a webhook has to convert.

    A webhook that fails is not asked again for a while: a slow one would delay every event of a wildcard watch.
    """

    def __init__(self, *, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._longest = longest_seconds
        self._suspended: LRU[_Place, float] = LRU(_MOST_SUSPENDED)
        """(cluster, prefix of the resource) -> until when, in the time of the event loop."""

    async def load(self, cluster: Name, served: Served, items: Sequence[KeyValue]) -> list[dict[str, Any]]:
        """`registry.store.load` for objects of one cluster.

        Raises:
            StatusError: 500, the objects cannot be converted now.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        place = (cluster, served.resource.keys.prefix)
        if (self._suspended.get(place) or 0.0) > began:
            if all(orjson.loads(item.value)["apiVersion"] == served.resource.group_version for item in items):
                # No webhook is needed for these.
                return await load(served, items)
            raise errors.internal(f"conversion of {served.resource.group_resource} failed a moment ago")
        try:
            async with asyncio.timeout(self._longest):
                return await load(served, items)
        except StatusError:
            self._suspend(place, began)
            raise
        except TimeoutError:
            self._suspend(place, began)
            raise errors.internal(f"conversion of {served.resource.group_resource} took more than {self._longest:g} seconds") from None

    def _suspend(self, place: _Place, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self._suspended.set(place, now + max(_LEAST_SUSPENDED_SECONDS, (now - began) * _SUSPENDED_PER_SECOND))
