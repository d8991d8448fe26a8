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
        # The tasks of the requests in flight, and when their time is over: in the order of their deadlines, as all have the same time.
        self._waiting: dict[asyncio.Task[object], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, exchange: Exchange) -> None:
        info = exchange.info
        if info.is_resource and info.verb in {"watch", "proxy"}:
            await self._handler(exchange)
            return
        values = exchange.parameters.values.get("timeout") if exchange.scope["query_string"] else None
        asked = _asked(values[0]) if values and values[0] else 0.0
        if 0 < asked < self._seconds:
            await self._run_within(asked, exchange)
            return
        # Faster than without the loop.
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        waiting = self._waiting
        if task in waiting:
            # A request within a request, such as one that a program answers with another one: the outer deadline comes first.
            await self._handler(exchange)
            return
        cancelling = task.cancelling()
        waiting[task] = self._now() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(SWEEP_SECONDS, self.sweep)
        try:
            await self._handler(exchange)
        except asyncio.CancelledError:
            if task not in waiting and task.uncancel() <= cancelling:
                raise _expired() from None
            raise
        finally:
            waiting.pop(task, None)

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
        expired = []
        for task, deadline in self._waiting.items():
            if deadline > now:
                break
            expired.append(task)
        for task in expired:
            # A task that is missing here knows why it is cancelled.
            del self._waiting[task]
            task.cancel()
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.sweep)


def _asked(text: str) -> float:
    try:
        return parse_duration(text) / SECOND
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from None


def _expired() -> StatusError:
    return timeout("request did not complete within requested timeout - context deadline exceeded")
