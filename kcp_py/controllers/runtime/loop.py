"""`ReconcileLoop`: keeps one controller supplied with work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, Final

import structlog

from kcp_py.aio.cooperative import Throttle, TimeSlice
from kcp_py.aio.slot import REQUEST_SLOT
from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Tap
from kcp_py.client.tap import ObjectChange
from kcp_py.controllers.runtime.controller import Controller, ControllerSource, FollowsItself, Later, Reconciler
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.telemetry.programcode import failed_function, passes

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")

WORKERS: Final = 8

_RESTART_SECONDS: Final = 0.1


def changes_of(
    tap: Tap, controller: Controller, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
) -> Callable[[WorkQueue], Awaitable[None]]:
    """What fills a queue from the changes of the resources that a controller follows, for a `ReconcileLoop`.

    Args:
        tap: whose changes are followed.
        controller: says which, and what follows from them.
        sleep: for tests.
    """
    if isinstance(controller, FollowsItself):
        return controller.follow

    async def follow_one(source: ControllerSource, queue: WorkQueue) -> None:
        while True:
            async with aclosing(tap.changes(source.resource, wanted=source.wanted)) as changes:
                async for change in changes:
                    queue_change(controller, source, change, queue=queue)
            await sleep(_RESTART_SECONDS)

    async def follow(queue: WorkQueue) -> None:
        async with asyncio.TaskGroup() as tasks:
            for source in controller.sources:
                tasks.create_task(follow_one(source, queue))

    return follow


def queue_change(controller: Controller, source: ControllerSource, change: ObjectChange, *, queue: WorkQueue) -> None:
    """Queue the keys that follow from a change of a resource that a controller follows."""
    for key in _keys_of(controller, source, change):
        if source.gathered:
            queue.expect(key, source.delay)
        elif source.delay:
            queue.add_after(key, source.delay)
        else:
            queue.add(key)


def _keys_of(controller: Controller, source: ControllerSource, change: ObjectChange) -> Iterable[Key]:
    """The keys that follow from a change; none where the function of the controller fails."""
    try:
        return [*source.keys(change)]
    except BaseException as error:
        if passes(error):
            raise
        _log.error("keys_failed", controller=controller.name, cluster=change.cluster, function=failed_function(error), exc_info=error)
        return ()


class ReconcileLoop:
    """One controller, a queue, a fixed number of workers and one task that fills the queue.

    A worker that waits for a webhook of a tenant is replaced meanwhile, so that webhooks that hang in some clusters do not stop the
    controller in all others. How many wait is bounded by the queue for each cluster, and by the calls of webhooks for all.
    """

    def __init__(
        self,
        tap: Tap | None,
        controller: Reconciler,
        follow: Callable[[WorkQueue], Awaitable[None]],
        *,
        queue: WorkQueue | None = None,
        workers: int = WORKERS,
        throttle: Throttle | None = None,
    ) -> None:
        """Prepare; `run` does the rest.

        Args:
            tap: whose removals are followed; None for a controller that waits for none.
            controller: what to run.
            follow: fills the queue, until it is cancelled.
            queue: for tests.
            workers: how many objects are worked on at the same time.
            throttle: for background work of unbounded amount; None does not delay any work.
        """
        self._throttle = throttle
        self._controller = controller
        self._follow = follow
        self._workers = workers
        self._busy = 0
        """Workers that do not wait for webhooks."""
        self._start: Callable[[], None] = lambda: None
        self.queue = queue if queue is not None else WorkQueue(per_cluster=controller.per_cluster)
        self._tap = tap

    @property
    def name(self) -> str:
        """Of the controller."""
        return self._controller.name

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            ExceptionGroup: changes cannot be followed; run again to go on.
        """
        end = self._tap.on_removal(self.queue.removed) if self._tap is not None else None
        try:
            async with asyncio.TaskGroup() as tasks:
                context = copy_context()

                def start() -> None:
                    self._busy += 1
                    tasks.create_task(self._work(), context=context.copy())

                self._busy, self._start = 0, start
                for _ in range(self._workers):
                    start()
                tasks.create_task(self._fill())
        finally:
            if end is not None:
                end()
            self.queue.close()

    async def _fill(self) -> None:
        await self._follow(self.queue)

    def rest(self) -> None:
        """Take note that a worker waits for a webhook, and have another one work meanwhile."""
        self._busy -= 1
        if self._busy < self._workers:
            self._start()

    def resume(self) -> None:
        """Take note that a worker goes on."""
        self._busy += 1

    async def _work(self) -> None:
        queue = self.queue
        time_slice = TimeSlice()
        while self._busy <= self._workers:
            # With the embedded store nothing else gives other tasks a turn where there is nothing to write.
            await time_slice.yield_if_due()
            key = await queue.take()
            place = _Place(self)
            REQUEST_SLOT.set(place)
            if self._throttle is not None:
                await self._throttle.take()
            try:
                awaited = await self._reconcile(key)
                if isinstance(awaited, Later):
                    queue.forget(key)
                    queue.add_after(key, awaited.seconds)
                elif awaited == 0:
                    queue.forget(key)
                else:
                    queue.retry(key, removals=awaited or 0)
            finally:
                place.leave()
                queue.done(key)
        self._busy -= 1

    async def _reconcile(self, key: Key) -> int | Later | None:
        """The controller's answer; None where it failed."""
        try:
            return await self._controller.reconcile(key)
        except StatusError as error:
            if error.reason == "Conflict":
                return None
            _log.warning("reconcile_failed", controller=self._controller.name, cluster=key.cluster, name=key.name, error=error.message)
        except BaseException as error:
            if passes(error):
                raise
            # One object must not stop the controller for all others.
            _log.error("reconcile_failed", controller=self._controller.name, cluster=key.cluster, name=key.name, exc_info=error)
        return None


class _Place:
    """The place of one piece of work among those that a loop works on at a time. The piece may wait for several webhooks at once."""

    __slots__ = ("_loop", "_waits")

    def __init__(self, loop: ReconcileLoop) -> None:
        self._loop = loop
        self._waits = 0

    def rest(self) -> None:
        self._waits += 1
        if self._waits == 1:
            self._loop.rest()

    async def resume(self) -> None:
        if self._waits == 1:
            self._loop.resume()
        self._waits = max(self._waits - 1, 0)

    def leave(self) -> None:
        """End. What has failed has not been resumed."""
        if self._waits:
            self._waits = 0
            self._loop.resume()
