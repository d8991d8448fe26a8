"""`ConcurrencyFilter`: bounds how many requests run at once."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

from kcp_py.aio.sharedcounts import Counts, key_of
from kcp_py.aio.slot import REQUEST_SLOT
from kcp_py.apimachinery.errors import too_many_requests
from kcp_py.request.context import RequestContext
from kcp_py.request.user import SYSTEM_MASTERS
from kcp_py.server.exchange import Exchange, Handler

MAX_READS: Final = 1000
MAX_WRITES: Final = 500
"""The defaults of `InFlight`."""
RETRY_AFTER_SECONDS: Final = 1

_WRITES: Final = frozenset(("create", "update", "patch", "delete", "deletecollection"))


class Fairness(Protocol):
    """Decides when a request may run. Queues and shares per tenant are implementations of it."""

    async def acquire(self, context: RequestContext) -> None:
        """Return once the request may run.

        Raises:
            StatusError: 429, it may not.
        """

    def release(self, context: RequestContext) -> None:
        """Take note that it has ended, or waits for a webhook."""

    def readmit(self, context: RequestContext) -> None:
        """Take note that a request goes on that has waited for a webhook. It is not refused, since it may have been carried out."""


class InFlight:
    """Two bounds for the whole server, as upstream's `--max-requests-inflight`: over them, 429 at once."""

    def __init__(self, *, reads: int = MAX_READS, writes: int = MAX_WRITES) -> None:
        self._free = {False: reads, True: writes}

    async def acquire(self, context: RequestContext) -> None:
        writing = context.info.verb in _WRITES
        if self._free[writing] <= 0:
            raise too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)
        self._free[writing] -= 1

    def release(self, context: RequestContext) -> None:
        self._free[context.info.verb in _WRITES] += 1

    def readmit(self, context: RequestContext) -> None:
        self._free[context.info.verb in _WRITES] -= 1


class JointInFlight:
    """The bounds of `InFlight` for all processes of a server together."""

    def __init__(self, counts: Counts, *, reads: int = MAX_READS, writes: int = MAX_WRITES) -> None:
        """Begin with no request.

        Args:
            counts: has the requests of the other processes.
            reads: requests that may read at once.
            writes: requests that may write at once.
        """
        self._counts = counts
        self._limits = {False: reads, True: writes}
        self._taken = {False: 0, True: 0}
        self._keys = {writing: key_of("requests in flight", writing) for writing in self._taken}

    async def acquire(self, context: RequestContext) -> None:
        """`Fairness.acquire`."""
        writing = context.info.verb in _WRITES
        if self._taken[writing] + self._counts.total(self._keys[writing]) >= self._limits[writing]:
            raise too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)
        self._take(context, 1)

    def release(self, context: RequestContext) -> None:
        """`Fairness.release`."""
        self._take(context, -1)

    def readmit(self, context: RequestContext) -> None:
        """`Fairness.readmit`."""
        self._take(context, 1)

    def _take(self, context: RequestContext, places: int) -> None:
        writing = context.info.verb in _WRITES
        self._taken[writing] += places
        self._counts.set(self._keys[writing], self._taken[writing])


class ConcurrencyFilter:
    """Asks `fairness` for every request but watches, which last too long to be counted, and those of administrators."""

    def __init__(self, handler: Handler, *, fairness: Fairness) -> None:
        self._handler = handler
        self._fairness = fairness

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if SYSTEM_MASTERS in exchange.user.groups or exchange.info.verb == "watch":
            return self._handler(exchange)
        return self._counted(exchange)

    async def _counted(self, exchange: Exchange) -> None:
        context = exchange.context
        await self._fairness.acquire(context)
        place = _Place(self._fairness, context)
        REQUEST_SLOT.set(place)
        try:
            await self._handler(exchange)
        finally:
            place.leave()


class _Place:
    """The place of one request. While it waits for a webhook, other requests may have it: hanging webhooks of tenants take none."""

    __slots__ = ("_context", "_fairness", "_has_ended", "_rests")

    def __init__(self, fairness: Fairness, context: RequestContext) -> None:
        self._fairness = fairness
        self._context = context
        self._rests = False
        self._has_ended = False

    def rest(self) -> None:
        if not self._rests and not self._has_ended:
            self._rests = True
            self._fairness.release(self._context)

    async def resume(self) -> None:
        """Go on. Harmless after the end: the context of a connection keeps the place of its last request."""
        if self._rests and not self._has_ended:
            self._rests = False
            self._fairness.readmit(self._context)

    def leave(self) -> None:
        """End."""
        if not self._rests:
            self._fairness.release(self._context)
        self._has_ended = True
