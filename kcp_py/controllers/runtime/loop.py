"""`ReconcileLoop`: keeps one controller supplied with work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

import structlog

from kcp_py.aio.cooperative import Throttle, TimeSlice
from kcp_py.apimachinery.errors import StatusError
from kcp_py.client import Tap
from kcp_py.controllers.runtime.controller import Controller, ControllerSource, Later, Reconciler
from kcp_py.controllers.runtime.queue import Key, WorkQueue

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")

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

    async def follow_one(source: ControllerSource, queue: WorkQueue) -> None:
        while True:
            async with aclosing(tap.changes(source.resource, wanted=source.wanted)) as changes:
                async for change in changes:
                    for key in source.keys(change):
                        if source.gathered:
                            queue.expect(key, source.delay)
                        elif source.delay:
                            queue.add_after(key, source.delay)
                        else:
                            queue.add(key)
            await sleep(_RESTART_SECONDS)

    async def follow(queue: WorkQueue) -> None:
        async with asyncio.TaskGroup() as tasks:
            for source in controller.sources:
                tasks.create_task(follow_one(source, queue))

    return follow


class ReconcileLoop:
    """One controller, a queue, a fixed number of workers and one task that fills the queue."""

    def __init__(
        self,
        tap: Tap,
        controller: Reconciler,
        follow: Callable[[WorkQueue], Awaitable[None]],
        *,
        queue: WorkQueue | None = None,
        workers: int = 8,
        throttle: Throttle | None = None,
    ) -> None:
        """Prepare; `run` does the rest.

        Args:
            tap: whose removals are followed.
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
        end = self._tap.on_removal(self.queue.removed)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._work())
                tasks.create_task(self._fill())
        finally:
            end()
            self.queue.close()

    async def _fill(self) -> None:
        await self._follow(self.queue)

    async def _work(self) -> None:
        queue = self.queue
        time_slice = TimeSlice()
        while True:
            # With the embedded store nothing else gives other tasks a turn where there is nothing to write.
            await time_slice.yield_if_due()
            key = await queue.take()
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
                queue.done(key)

    async def _reconcile(self, key: Key) -> int | Later | None:
        """The controller's answer; None where it failed."""
        try:
            return await self._controller.reconcile(key)
        except StatusError as error:
            if error.reason == "Conflict":
                return None
            _log.warning("reconcile_failed", controller=self._controller.name, cluster=key.cluster, name=key.name, error=error.message)
        except Exception as error:  # noqa: BLE001 - one object must not stop the controller for all others
            _log.error("reconcile_failed", controller=self._controller.name, cluster=key.cluster, name=key.name, exc_info=error)
        return None
