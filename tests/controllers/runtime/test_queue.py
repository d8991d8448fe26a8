"""The work queue, in virtual time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

import pytest

from kcp_py.controllers.runtime.queue import FIRST_DELAY_SECONDS, SOON_SECONDS, Key, WorkQueue
from kcp_py.logicalcluster import Name

pytestmark = pytest.mark.anyio

A, B, C = Name("a"), Name("b"), Name("c")


class Timer:
    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        self.function = None


class VirtualTime:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = count()

    def schedule(self, seconds: float, function: Callable[[], None]) -> Timer:
        timer = Timer(function)
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            _, _, timer = heapq.heappop(self._timers)
            if timer.function is not None:
                timer.function()


async def drain(queue: WorkQueue, *, give_back: bool = True) -> list[Key]:
    """Take all that is ready, one after the other."""
    taken = []
    while len(queue):
        key = await queue.take()
        taken.append(key)
        if give_back:
            queue.done(key)
    return taken


async def test_clusters_take_turns() -> None:
    """A cluster with many keys delays another by one key, not by all of them."""
    queue = WorkQueue()
    for number in range(1000):
        queue.add(Key(A, "", str(number)))
    queue.add(Key(B, "", "one"))
    queue.add(Key(C, "", "one"))
    taken = await drain(queue)
    assert taken[:4] == [Key(A, "", "0"), Key(B, "", "one"), Key(C, "", "one"), Key(A, "", "1")]
    assert len(taken) == 1002


async def test_a_key_comes_after_its_time() -> None:
    """A key that has to wait comes once its time has passed, or when it is added before; it comes once."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule)
    queue.add_after(Key(A, "", "late"), 600)
    queue.add_after(Key(A, "", "added"), 600)
    queue.add(Key(A, "", "added"))
    assert await drain(queue) == [Key(A, "", "added")]
    time.advance(599)
    assert (await drain(queue), queue.delayed) == ([], 1)
    time.advance(1)
    assert (await drain(queue), queue.delayed) == ([Key(A, "", "late")], 0)


async def test_a_key_waits_once() -> None:
    """Adding a waiting key again changes nothing."""
    queue = WorkQueue()
    for _ in range(3):
        queue.add(Key(A, "", "one"))
    assert await drain(queue) == [Key(A, "", "one")]


async def test_a_key_that_changes_while_it_is_worked_on_comes_again() -> None:
    """A change during the work is looked at after it, once, and never by two workers at a time."""
    queue = WorkQueue(per_cluster=8)
    queue.add(Key(A, "", "one"))
    key = await queue.take()
    queue.add(key)
    queue.add(key)
    assert len(queue) == 0
    queue.done(key)
    assert await drain(queue) == [key]


async def test_a_cluster_has_no_more_workers_than_its_share() -> None:
    """Keys of a cluster wait while as many of it as are allowed are worked on."""
    queue = WorkQueue(per_cluster=2)
    for name in ("1", "2", "3"):
        queue.add(Key(A, "", name))
    first, second = await queue.take(), await queue.take()
    queue.add(Key(B, "", "1"))
    assert await queue.take() == Key(B, "", "1")
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(first)
    assert await waiting == Key(A, "", "3")
    queue.done(second)


async def test_retries_come_ever_later() -> None:
    """Each retry in a row doubles the delay, up to the longest; after success it begins anew."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule, jitter=lambda: 1.0, longest_delay=1.0)
    key = Key(A, "", "one")
    delays = []
    for _ in range(8):
        queue.retry(key)
        before = time.now
        while not len(queue):
            time.advance(FIRST_DELAY_SECONDS / 2)
        delays.append(round((time.now - before) / FIRST_DELAY_SECONDS))
        queue.done(await queue.take())
    assert delays == [1, 2, 4, 8, 16, 32, 50, 50]
    queue.forget(key)
    queue.retry(key)
    time.advance(FIRST_DELAY_SECONDS)
    assert await drain(queue) == [key]


async def test_jitter_spreads_retries_over_the_second_half_of_the_delay() -> None:
    """Keys that failed together do not all come back together, and none at once."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule, jitter=lambda: 0.0)
    queue.retry(Key(A, "", "one"))
    time.advance(FIRST_DELAY_SECONDS * 0.49)
    assert len(queue) == 0
    time.advance(FIRST_DELAY_SECONDS * 0.02)
    assert len(queue) == 1


async def test_a_key_may_come_later() -> None:
    """It comes once its time has passed, each time anew, and its next failure is still its first."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule, jitter=lambda: 1.0)
    key = Key(A, "", "one")
    for _ in range(3):
        queue.add_after(key, 5)
        queue.add_after(key, 5)
        time.advance(4.9)
        assert (len(queue), queue.delayed) == (0, 1)
        time.advance(0.1)
        assert await drain(queue) == [key]
    queue.retry(key)
    time.advance(FIRST_DELAY_SECONDS)
    assert await drain(queue) == [key]


async def test_an_expected_key_keeps_its_time() -> None:
    """Until it is looked at, or the queue is closed: what waited then is expected anew."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule)
    key = Key(A, "", "one")
    queue.expect(key, 5)
    time.advance(4)
    queue.expect(key, 5)
    time.advance(1)
    queue.expect(key, 5)
    assert (await drain(queue), queue.delayed) == ([key], 0)
    queue.expect(key, 5)
    queue.close()
    queue.expect(key, 5)
    time.advance(5)
    assert await drain(queue) == [key]


async def test_a_change_does_not_wait_for_its_time() -> None:
    """A key that is added while it waits for its time comes at once, and not a second time."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule)
    queue.add_after(Key(A, "", "one"), 5)
    queue.add(Key(A, "", "one"))
    assert await drain(queue) == [Key(A, "", "one")]
    time.advance(10)
    assert len(queue) == 0


async def test_a_change_does_not_wait_for_the_retry() -> None:
    """A key whose object changes is looked at now, and not once more when its time comes."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule)
    key = Key(A, "", "one")
    queue.retry(key)
    queue.add(key)
    assert queue.delayed == 0
    assert await drain(queue) == [key]
    time.advance(60)
    assert len(queue) == 0


async def test_a_cancelled_worker_passes_its_call_on() -> None:
    """A key that was about to wake a worker who is cancelled wakes another."""
    queue = WorkQueue()
    first, second = asyncio.ensure_future(queue.take()), asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.add(Key(A, "", "one"))
    first.cancel()
    assert await second == Key(A, "", "one")
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_an_idle_queue_holds_nothing() -> None:
    """Once a key is done and forgotten, nothing of its cluster remains in memory."""
    queue = WorkQueue()
    key = Key(A, "", "one")
    queue.add(key)
    await queue.take()
    queue.retry(key)
    queue.add(key)
    queue.done(key)
    await queue.take()
    queue.forget(key)
    queue.done(key)
    assert not any((queue._waiting, queue._turns, queue._taken, queue._again, queue._delayed, queue._attempts))


async def test_a_key_that_waits_for_removals_does_not_wait_for_its_time() -> None:
    """After as many removals in its cluster as it waits for a key is looked at, not before, and not for those in other clusters."""
    time = VirtualTime()
    queue = WorkQueue(schedule=time.schedule)
    key = Key(A, "", "one")
    queue.retry(key, removals=2)
    queue.removed(A)
    queue.removed(B)
    assert len(queue) == 0
    queue.removed(A)
    assert queue.delayed == 0
    assert await drain(queue) == [key]
    queue.removed(A)
    assert len(queue) == 0
    assert not queue._awaited


def test_the_clusters_of_all_keys_are_known() -> None:
    """Of those that wait for a worker, and of those that wait for their time."""
    queue = WorkQueue(schedule=lambda _, function: Timer(function))
    queue.add(Key(Name("waiting"), "", "a"))
    queue.add_after(Key(Name("later"), "", "a"), 60)
    assert queue.clusters() == {"waiting", "later"}


async def test_unfinished_keys_of_all_clusters_take_turns() -> None:
    """Keys that wait, that workers have and that are tried again; not those that are due much later, nor those that are done."""
    time = VirtualTime()
    queue = WorkQueue(per_cluster=2, schedule=time.schedule)
    for name in ("taken", "failed", "done", "waiting", "more"):
        queue.add(Key(A, "", name))
    taken, failed = await queue.take(), await queue.take()
    queue.retry(failed)
    queue.done(failed)
    done = await queue.take()
    queue.forget(done)
    queue.done(done)
    queue.add_after(Key(B, "", "soon"), SOON_SECONDS)
    queue.add_after(Key(C, "", "later"), SOON_SECONDS + 1)
    names = [key.name for key in queue.unfinished(10)]
    assert sorted(names) == ["failed", "more", "soon", "taken", "waiting"]
    assert taken.name in names
    assert {key.cluster for key in queue.unfinished(2)} == {A, B}
    time.advance(SOON_SECONDS)
    assert Key(B, "", "soon") in queue.unfinished(10)
    queue.close()
    assert Key(A, "", "waiting") in queue.unfinished(10)
