"""`WorkQueue`: which objects have to be looked at, each once, with every logical cluster in its turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

from kcp_py.aio.clock import Schedule, Timer, call_later
from kcp_py.client.keys import Key
from kcp_py.controllers.runtime.queuemetrics import QueueMetrics
from kcp_py.logicalcluster import Name

__all__ = ["FIRST_DELAY_SECONDS", "LONGEST_DELAY_SECONDS", "SOON_SECONDS", "Key", "Schedule", "Timer", "WorkQueue", "call_later"]

FIRST_DELAY_SECONDS: Final = 0.02
LONGEST_DELAY_SECONDS: Final = 30.0
SOON_SECONDS: Final = 60.0
"""Keys that wait for no longer are work that a later process continues."""
_LARGEST_EXPONENT: Final = 30
_LOOKED_AT: Final = 10
"""Keys that `unfinished` looks at for each that it may return."""


_Place = tuple[str, str]
"""Namespace and name."""


class WorkQueue:
    """Keys wait here until a worker takes them.

    A key that is added again while it waits is looked at once; while a worker has it, once more after that. Clusters take turns: one that
    adds a million keys delays another by one key at the most, and of one cluster at most `per_cluster` keys are with workers at a time.
    """

    def __init__(
        self,
        *,
        per_cluster: int = 1,
        schedule: Schedule = call_later,
        jitter: Callable[[], float] = random.random,
        longest_delay: float = LONGEST_DELAY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty queue.

        Args:
            per_cluster: how many keys of one cluster may be worked on at the same time.
            schedule: calls functions when keys are due.
            jitter: a number from 0 to 1 that spreads retries over the second half of their delay.
            longest_delay: of retries, in seconds.
            clock: seconds that do not go back, for the metrics.
        """
        self._per_cluster = per_cluster
        self._schedule = schedule
        self._jitter = jitter
        self._longest_delay = longest_delay
        self._clock = clock
        self.metrics = QueueMetrics()
        self.metrics.depth = self.__len__
        self.metrics.running = self._running
        self._waiting: dict[Name, dict[_Place, float]] = {}
        """Since when, on the clock."""
        self._turns: OrderedDict[Name, None] = OrderedDict()
        self._taken: dict[Name, dict[_Place, float]] = {}
        """Since when, on the clock."""
        self._again: set[Key] = set()
        self._delayed: dict[Key, Timer] = {}
        self._soon: set[Key] = set()
        """Those of `_delayed` that are tried again, or due within `SOON_SECONDS`."""
        self._attempts: dict[Key, int] = {}
        self._awaited: dict[Name, dict[_Place, int]] = {}
        self._takers: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """How many keys wait for a worker."""
        return sum(map(len, self._waiting.values()))

    @property
    def idle(self) -> bool:
        """Whether no key waits for a worker, and no worker has one. Keys may wait for their time."""
        return not self._waiting and not self._taken

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._delayed)

    def clusters(self) -> set[Name]:
        """The clusters of all keys: of those that wait for a worker or for their time, and of those that workers have."""
        return {*self._waiting, *self._taken, *(key.cluster for key in self._delayed)}

    def unfinished(self, most: int) -> Sequence[Key]:
        """Keys that a later process has to look at: that wait for a worker, that workers have, and that are tried again or due soon.

        Clusters take turns. Keys that wait for a time further away are left out: they have to be found by their objects.

        Args:
            most: how many. Of a longer queue, a part is looked at.
        """
        held = chain(self._taken.items(), islice(self._waiting.items(), most))
        places = chain(
            ((cluster, place) for cluster, found in held for place in islice(found, most)),
            ((key.cluster, key[1:]) for key in self._soon),
        )
        turns: dict[Name, dict[_Place, None]] = {}
        for cluster, place in islice(places, most * _LOOKED_AT):
            turns.setdefault(cluster, {})[place] = None
        rounds = zip_longest(*([Key(cluster, *place) for place in found] for cluster, found in turns.items()))
        return list(islice((key for keys in rounds for key in keys if key is not None), most))

    def add(self, key: Key) -> None:
        """Have a key looked at as soon as its turn comes."""
        self._stop_waiting(key)
        cluster = key.cluster
        place = key[1:]
        if place in self._taken.get(cluster, ()):
            self.metrics.adds += key not in self._again
            self._again.add(key)
            return
        self.metrics.adds += place not in self._waiting.get(cluster, ())
        self._enqueue(key)

    def _enqueue(self, key: Key) -> None:
        self._waiting.setdefault(key.cluster, {}).setdefault(key[1:], self._clock())
        self._give_turn(key.cluster)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have a key looked at after a time, or when it is added before."""
        self._stop_waiting(key)
        if seconds <= SOON_SECONDS:
            self._soon.add(key)
        self._delayed[key] = self._schedule(seconds, lambda: self.add(key))

    def expect(self, key: Key, seconds: float) -> None:
        """Have a key looked at after a time, unless it waits for its turn or its time already."""
        if key not in self._delayed and key[1:] not in self._waiting.get(key.cluster, ()):
            self.add_after(key, seconds)

    def retry(self, key: Key, *, removals: int = 0) -> None:
        """Have a key looked at again later: ever later, the more often this is called in a row.

        Args:
            key: which.
            removals: look already when so many objects of its cluster were removed (see `removed`); 0 for no such thing.
        """
        self._stop_waiting(key)
        if removals:
            self._awaited.setdefault(key.cluster, {})[key[1:]] = removals
        self.metrics.retries += 1
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        delay = min(self._longest_delay, FIRST_DELAY_SECONDS * 2 ** min(attempt - 1, _LARGEST_EXPONENT))
        self._soon.add(key)
        self._delayed[key] = self._schedule(delay * (0.5 + self._jitter() / 2), lambda: self.add(key))

    def removed(self, cluster: Name) -> None:
        """An object of a cluster was removed: the keys that wait for as many removals as there have been get their turn."""
        awaited = self._awaited.get(cluster)
        if awaited is None:
            return
        for place in list(awaited):
            awaited[place] -= 1
            if not awaited[place]:
                self.add(Key(cluster, *place))

    def forget(self, key: Key) -> None:
        """The key is as it should be: its next failure is its first."""
        self._attempts.pop(key, None)

    async def take(self) -> Key:
        """The next key; `done` has to be called with it."""
        while not self._turns:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake()  # the call was meant for a waiting worker: pass it on
                raise
        cluster, _ = self._turns.popitem(last=False)
        waiting = self._waiting[cluster]
        place = next(iter(waiting))
        now = self._clock()
        self.metrics.waits.observe(now - waiting.pop(place))
        if not waiting:
            del self._waiting[cluster]
        self._taken.setdefault(cluster, {})[place] = now
        self._give_turn(cluster)
        return Key(cluster, *place)

    def done(self, key: Key) -> None:
        """Give a taken key back."""
        cluster = key.cluster
        taken = self._taken[cluster]
        self.metrics.work.observe(self._clock() - taken.pop(key[1:]))
        if not taken:
            del self._taken[cluster]
        if key in self._again:
            self._again.discard(key)
            self._stop_waiting(key)
            self._enqueue(key)
        self._give_turn(cluster)

    def close(self) -> None:
        """Drop what waits for its time."""
        for timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._soon.clear()
        self._awaited.clear()

    def _running(self) -> list[float]:
        """For how many seconds workers have had each of the keys that they have. May be called from any thread."""
        now = self._clock()
        return [now - since for taken in self._taken.copy().values() for since in taken.copy().values()]

    def _stop_waiting(self, key: Key) -> None:
        """Its time has come, or it is set anew."""
        self._soon.discard(key)
        if (timer := self._delayed.pop(key, None)) is not None:
            timer.cancel()
        awaited = self._awaited.get(key.cluster)
        if awaited is not None:
            awaited.pop(key[1:], None)
            if not awaited:
                del self._awaited[key.cluster]

    def _give_turn(self, cluster: Name) -> None:
        if cluster in self._waiting and cluster not in self._turns and len(self._taken.get(cluster, ())) < self._per_cluster:
            self._turns[cluster] = None
            self._wake()

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
