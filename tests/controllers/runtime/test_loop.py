"""The reconcile loop, and which controllers run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import pytest

from kcp_py.aio.slot import released_slot
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.loop import ReconcileLoop, changes_of
from kcp_py.controllers.runtime.queue import Key, WorkQueue
from kcp_py.controllers.starting import start_controllers
from kcp_py.logicalcluster import Name
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

A = Name("a")


def change_of(name: str) -> ObjectChange:
    return ObjectChange(A, Recorder.resource.group_resource, "", name, b"{}", None)


class Changes:
    """A tap whose only changes are those that the test puts in."""

    def __init__(self) -> None:
        self.put: asyncio.Queue[ObjectChange | None] = asyncio.Queue()
        self.asked = 0

    def on_removal(self, callback: Callable[[Name], None]) -> Callable[[], None]:
        del callback
        return lambda: None

    async def changes(self, resource: GroupVersionResource, *, wanted: ObjectFilter) -> AsyncGenerator[ObjectChange, None]:
        del resource, wanted
        self.asked += 1
        while (change := await self.put.get()) is not None:
            yield change


class Recorder:
    """A controller that fails for the names it is told to fail for, once each."""

    name = "recorder"
    resource = GroupVersionResource("", "v1", "configmaps")
    per_cluster = 1

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.done: asyncio.Queue[str] = asyncio.Queue()

    @property
    def sources(self) -> Sequence[ControllerSource]:
        return (ControllerSource(self.resource),)

    async def reconcile(self, key: Key) -> int:
        if key.name in self.failing:
            self.failing.discard(key.name)
            raise RuntimeError("not yet")
        self.done.put_nowait(key.name)
        return 0


async def no_sleep(seconds: float) -> Any:
    del seconds


def loop(tap: Changes, controller: Recorder, workers: int = 8) -> ReconcileLoop:
    given = cast("Tap", tap)
    return ReconcileLoop(given, controller, changes_of(given, controller, no_sleep), workers=workers)


async def test_a_failure_is_tried_again_and_holds_up_nobody() -> None:
    """An object whose reconciliation fails comes again; others are worked on meanwhile."""
    tap, controller = Changes(), Recorder("bad")
    async with Supervisor(lambda *_: None) as supervisor:
        supervisor.start("loop", loop(tap, controller, workers=1).run)
        for name in ("bad", "good"):
            tap.put.put_nowait(change_of(name))
        assert [await controller.done.get(), await controller.done.get()] == ["good", "bad"]


class Never:
    """A timer that does not end."""

    def cancel(self) -> None:
        """It is gone already."""


class Waiter:
    """A controller that waits for webhooks, except for the names that begin with `quick`."""

    name = "waiter"
    per_cluster = 1

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = self.most = 0
        self.done: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(self, key: Key) -> int:
        if not key.name.startswith("quick"):
            async with asyncio.TaskGroup() as calls:
                calls.create_task(self._call(key.name))
                calls.create_task(self._call(key.name))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.done.put_nowait(key.name)
        return 0

    async def _call(self, name: str) -> None:
        async with released_slot():
            await self.go.wait()
            if name.startswith("fails"):
                raise ValueError(name)


async def test_workers_that_wait_for_webhooks_are_replaced() -> None:
    """Others are worked on meanwhile; afterwards there are as many workers as before, also where calls have failed."""
    controller = Waiter()
    queue = WorkQueue(per_cluster=1, schedule=lambda *_: Never())

    async def follow(queue: WorkQueue) -> None:
        del queue
        await asyncio.Event().wait()

    loop = ReconcileLoop(cast("Tap", Changes()), controller, follow, queue=queue, workers=2)
    task = asyncio.ensure_future(loop.run())
    for number in range(20):
        queue.add(Key(Name(f"slow-{number}"), "", "fails" if number % 3 == 0 else "slow"))
    await until_idle()
    queue.add(Key(A, "", "quick"))
    assert await controller.done.get() == "quick"
    controller.go.set()
    await until_idle()
    assert controller.done.qsize() == 13
    controller.most = 0
    for number in range(20):
        queue.add(Key(Name(f"later-{number}"), "", "quick"))
    await until_idle()
    assert controller.done.qsize() == 33
    # As many as can work at a time, and no more.
    assert controller.most == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_changes_are_asked_for_again_when_they_end() -> None:
    """A server that ends the watch is asked anew."""
    tap, controller = Changes(), Recorder()
    async with Supervisor(lambda *_: None) as supervisor:
        supervisor.start("loop", loop(tap, controller).run)
        tap.put.put_nowait(None)
        tap.put.put_nowait(change_of("after"))
        assert await controller.done.get() == "after"
        assert tap.asked == 2


async def test_unknown_controllers_are_refused() -> None:
    """A selection with a typing mistake does not quietly leave a controller out."""
    async with Supervisor(lambda *_: None) as supervisor:
        with pytest.raises(ValueError, match="unknown controllers: namspaces"):
            start_controllers(supervisor, cast("Client", None), cast("Tap", Changes()), ("*", "-namspaces"))
