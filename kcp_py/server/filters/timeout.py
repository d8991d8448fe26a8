"""`TimeoutFilter`: ends requests that take too long (k8s.io/apiserver `filters/request_deadline.go`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from kcp_py.apimachinery.errors import StatusError, bad_request, timeout
from kcp_py.golang.durations import SECOND, parse_duration
from kcp_py.server.exchange import Exchange, Handler

DEFAULT_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 1.0


class TimeoutFilter:
    """Gives every request but watches a deadline: the server's, or an earlier one that the client asks for with `?timeout=`.

    The common deadline is kept by one sweep a second over the requests in flight, oldest first: a timer for each request would cost
    more than several other filters together.
    """

    def __init__(self, handler: Handler, *, seconds: float = DEFAULT_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            seconds: the most that a request may take.
            now: seconds, monotonic.
        """
        self._handler = handler
        self._seconds = seconds
        self._now = now
        # In the order of their deadlines, as all have the same time.
        self._waiting: dict[_Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, exchange: Exchange) -> None:
        info = exchange.info
        if info.is_resource and info.verb in {"watch", "proxy"}:
            await self._handler(exchange)
            return
        values = exchange.query.get("timeout") if exchange.scope["query_string"] else None
        asked = _asked(values[0]) if values and values[0] else 0.0
        if 0 < asked < self._seconds:
            await self._run_within(asked, exchange)
            return
        # Faster than without the loop.
        task = asyncio.current_task(asyncio.get_running_loop())
        assert task is not None
        deadline = _Deadline(task, self._now() + self._seconds)
        self._waiting[deadline] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.sweep)
        try:
            await self._handler(exchange)
        except asyncio.CancelledError:
            if deadline.expired and task.uncancel() <= deadline.cancelling:
                raise _expired() from None
            raise
        finally:
            self._waiting.pop(deadline, None)

    async def _run_within(self, seconds: float, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._handler(exchange)
        except TimeoutError:
            if limit.expired():
                raise _expired() from None
            raise

    def sweep(self) -> None:
        """Cancel requests that are past their deadline; called once a second while there are requests."""
        self._timer = None
        now = self._now()
        for deadline in list(self._waiting):
            if deadline.at > now:
                break
            del self._waiting[deadline]
            deadline.expired = True
            deadline.task.cancel()
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.sweep)


class _Deadline:
    __slots__ = ("at", "cancelling", "expired", "task")

    def __init__(self, task: asyncio.Task[object], at: float) -> None:
        self.task = task
        self.at = at
        self.cancelling = task.cancelling()
        self.expired = False


def _asked(text: str) -> float:
    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None


def _expired() -> StatusError:
    return timeout("request did not complete within requested timeout - context deadline exceeded")
