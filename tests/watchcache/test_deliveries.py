"""Events of watchers whose tasks sleep: written without waking them, and left to them where that cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kcp_py.watchcache import Deliveries, ObjectEvent, WatchEndedError, Watcher, WatchRevokedError
from tests.watchcache.test_watcher import event, watcher

pytestmark = pytest.mark.anyio


class Written:
    """Writes prepared events, and only while it may."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.prepared: set[int] = set()
        self.preparations = 0
        self.takes = True
        self.fault: Exception | None = None

    def write(self, events: Sequence[ObjectEvent]) -> bool | None:
        if not self.takes:
            return False
        revisions = [one.mod_revision for one in events]
        if not self.prepared.issuperset(revisions):
            return None
        self.batches.append(revisions)
        return True

    async def prepare(self, events: Sequence[ObjectEvent]) -> None:
        self.preparations += 1
        if self.fault is not None:
            raise self.fault
        self.prepared.update(one.mod_revision for one in events)


def sleeping(deliveries: Deliveries, subscriber: Written) -> tuple[Watcher, asyncio.Future[None]]:
    found = watcher()
    found.deliver_to(subscriber, deliveries)
    return found, found.wait()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_sleeping_watcher_is_not_woken() -> None:
    """What comes before the task of the deliveries has its turn is written together; one preparation serves all who share it."""
    deliveries, written = Deliveries(), Written()
    watchers = [sleeping(deliveries, written) for _ in range(3)]
    for one, _ in watchers:
        one.offer(event(1))
        one.offer(event(2))
    await turns()
    assert (written.batches, written.preparations) == ([[1, 2]] * 3, 1)
    assert not any(sleep.done() or one.unread for one, sleep in watchers)
    # There is no task while there is nothing to do, and another one afterwards.
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "deliver events to watches"]
    watchers[0][0].offer(event(3))
    await turns()
    assert written.batches[3:] == [[3]]


async def test_a_subscriber_that_cannot_write_leaves_the_events_to_the_task() -> None:
    """In their order, with those that come later, and without effect on other watchers."""
    deliveries, slow, fast = Deliveries(), Written(), Written()
    slow.takes = False
    (behind, sleep), (ahead, _) = sleeping(deliveries, slow), sleeping(deliveries, fast)
    for revision in (1, 2):
        behind.offer(event(revision))
        ahead.offer(event(revision))
        await turns()
    assert fast.batches == [[1], [2]]
    assert sleep.done()
    slow.takes = True
    await turns()
    assert slow.batches == []
    assert [one.mod_revision for one in await behind.take()] == [1, 2]


async def test_an_error_of_the_preparation_wakes_the_task() -> None:
    """The task meets it again. Others get their events."""
    deliveries, failing, other = Deliveries(), Written(), Written()
    failing.fault = ValueError("not to be encoded")
    (first, sleep), (second, _) = sleeping(deliveries, failing), sleeping(deliveries, other)
    first.offer(event(1))
    second.offer(event(1))
    await turns()
    assert sleep.done()
    assert first.unread == 1
    assert other.batches == [[1]]


async def test_an_end_comes_before_what_is_not_written() -> None:
    """A revocation drops it; another end leaves it to the task, which delivers it before the end."""
    deliveries, written = Deliveries(), Written()
    written.prepared = {1}
    (revoked, _), (ended, _) = sleeping(deliveries, written), sleeping(deliveries, written)
    revoked.offer(event(1))
    revoked.end(WatchRevokedError())
    ended.offer(event(1))
    ended.end(WatchEndedError())
    await turns()
    assert written.batches == []
    with pytest.raises(WatchRevokedError):
        await revoked.take()
    assert len(await ended.take()) == 1


async def test_a_task_that_wakes_meanwhile_has_the_events() -> None:
    """Nothing is delivered twice."""
    deliveries, written = Deliveries(), Written()
    written.prepared = {1}
    found, _ = sleeping(deliveries, written)
    found.offer(event(1))
    found.wake()
    assert len(await found.take()) == 1
    found.deliver_to(None, None)
    await turns()
    assert written.batches == []
