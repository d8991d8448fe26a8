"""The cached data of a cluster is never older than the state that a client may have seen, and bounded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, consumes, invariant, multiple, rule

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterbudget import ClusterBudget, Part
from kcp_py.registry.clustercache import ClusterCache
from kcp_py.storage.contract import UnavailableError

pytestmark = pytest.mark.anyio

A, B, C, D = (Name(name) for name in "abcd")


V = TypeVar("V")


def bounded(load: Callable[[Name], Awaitable[V]], *, capacity: int = 10) -> ClusterCache[V]:
    """A cache whose budget has room for so many values."""
    budget = ClusterBudget()
    one: Part[str] = budget.part("one", lambda _: None)
    one.hold("one", 1000)
    cache = ClusterCache(load, budget=ClusterBudget(capacity * budget.size), name="values", weigh=lambda _cluster, _value: 1000)
    assert budget.size > 1000
    return cache


class Source:
    """Where values come from: each read waits until it is let go."""

    def __init__(self) -> None:
        self.reads: list[Name] = []
        self.held: asyncio.Event = asyncio.Event()
        self.held.set()

    async def __call__(self, cluster: Name) -> str:
        self.reads.append(cluster)
        number = len(self.reads)
        await self.held.wait()
        return f"{cluster}{number}"


async def begun(cache: ClusterCache[str], source: Source, cluster: Name) -> asyncio.Task[str]:
    """A load that has read and goes no further until the source is let go."""
    source.held.clear()
    task = asyncio.create_task(cache.get(cluster))
    await asyncio.sleep(0)
    return task


async def test_a_value_is_loaded_once() -> None:
    """Loaded data is cached from then on, for its own cluster alone."""
    source = Source()
    cache = bounded(source)
    assert cache.cached(A) is None
    assert [await cache.get(A), await cache.get(A), await cache.get(B)] == ["a1", "a1", "b2"]
    assert (cache.cached(A), cache.cached(B), len(cache)) == ("a1", "b2", 2)


async def test_followers_hear_of_each_load_and_of_each_doubt() -> None:
    """An answer of `cached` never changes from one value to another, or to none for a change, without an announcement."""
    source, heard = Source(), [0]
    cache = bounded(source)

    def hear() -> None:
        heard[0] += 1

    cache.follow(hear)
    await cache.get(A)
    assert heard == [1]
    await cache.get(A)
    assert heard == [1]
    for number, change in enumerate(
        (lambda: cache.writing(A), lambda: cache.written(A), lambda: cache.invalidate(B), cache.clear), start=2
    ):
        change()
        assert heard == [number]


async def test_the_longest_unused_goes_first() -> None:
    """Beyond its budget the cache drops the cluster that was not used for longest in any cache of the budget."""
    source = Source()
    cache = bounded(source, capacity=3)
    for cluster in (A, B, C):
        await cache.get(cluster)
    for cluster in (A, B):
        cache._part._budget.use(cluster)
    await cache.get(D)
    assert [cluster for cluster in (A, B, C, D) if cache.cached(cluster)] == [A, B, D]
    assert len(cache) == 3


async def test_absence_is_not_remembered() -> None:
    """None is an answer, and looked for again the next time."""
    answers = iter((None, "there"))

    async def load(_: Name) -> str | None:
        return next(answers)

    cache = bounded(load)
    assert await cache.get(A) is None
    assert (await cache.get(A), len(cache)) == ("there", 1)


async def test_a_failed_load_leaves_nothing() -> None:
    """Its error goes to who asked, and the next one loads again."""
    answers = iter((UnavailableError("gone"), "there"))

    async def load(_: Name) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cache = bounded(load)
    with pytest.raises(UnavailableError):
        await cache.get(A)
    assert not cache._loading
    assert await cache.get(A) == await cache.get(A) == "there"


async def test_a_cancelled_load_leaves_nothing() -> None:
    """Who gives up takes the note of its load along."""
    source = Source()
    cache = bounded(source)
    task = await begun(cache, source, A)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not cache._loading
    assert len(cache) == 0


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda cache: cache.invalidate(A), id="a change seen by the feed"),
        pytest.param(lambda cache: cache.clear(), id="a gap in the feed"),
        pytest.param(lambda cache: cache.writing(A), id="a write that begins"),
        pytest.param(lambda cache: (cache.writing(A), cache.written(A)), id="a whole write"),
    ],
)
async def test_a_value_that_became_doubtful_while_it_was_loaded_is_not_kept(happens: Any) -> None:
    """Callers that wait get it, later callers do not; data that another cluster loads at the same time stays."""
    source = Source()
    cache = bounded(source)
    await cache.get(B)
    task = await begun(cache, source, A)
    happens(cache)
    source.held.set()
    assert await task == "a2"
    assert cache.cached(A) is None


async def test_nothing_is_kept_until_the_last_of_several_writes_is_over() -> None:
    """Two writes of a cluster overlap: between their ends values are loaded for every request, after them once."""
    source = Source()
    cache = bounded(source)
    await cache.get(A)
    cache.writing(A)
    cache.writing(A)
    assert [await cache.get(A), await cache.get(B)] == ["a2", "b3"]
    cache.written(A)
    assert (await cache.get(A), cache.cached(A), cache.cached(B)) == ("a4", None, "b3")
    cache.written(A)
    assert (await cache.get(A), cache.cached(A)) == ("a5", "a5")
    assert not cache._writing


async def test_a_load_that_began_in_a_write_is_not_kept_when_it_ends_after_it() -> None:
    """It may have read the state before the commit."""
    source = Source()
    cache = bounded(source)
    cache.writing(A)
    task = await begun(cache, source, A)
    cache.written(A)
    source.held.set()
    await task
    assert cache.cached(A) is None


async def test_of_loads_at_the_same_time_the_latest_is_kept() -> None:
    """A load that began after a change is kept even if one from before the change ends later."""
    source = Source()
    cache = bounded(source)
    early = await begun(cache, source, A)
    cache.invalidate(A)
    late = await begun(cache, source, A)
    source.held.set()
    assert [await early, await late] == ["a1", "a2"]
    assert cache.cached(A) == "a2"


async def test_clear_forgets_everybody() -> None:
    """After a gap nothing is at hand, and all is loaded anew."""
    cache = bounded(Source())
    for cluster in (A, B):
        await cache.get(cluster)
    cache.clear()
    assert (len(cache), cache.cached(A), cache.cached(B)) == (0, None, None)
    assert await cache.get(A) == "a3"


class _Step:
    """Ends one step of a coroutine that is run by hand."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass(eq=False)
class _Load:
    """A load that a test takes through its steps: begin, read, end."""

    cluster: Name
    running: Coroutine[Any, Any, int]
    disturbed: bool = False
    """Whether a write of the cluster was in flight, a change of it was told, or another load of it began, at any time since it began."""

    def step(self) -> int | None:
        """One step further; the value once it has ended."""
        try:
            self.running.send(None)
        except StopIteration as end:
            value: int = end.value
            return value
        return None


@dataclass(eq=False)
class _Write:
    cluster: Name
    refused: bool


CLUSTERS = st.sampled_from((A, B))


class ClusterCacheMachine(RuleBasedStateMachine):
    """A store that counts each cluster's commits, writers here and elsewhere, and loads that stand still between any two of their steps."""

    CAPACITY = 1

    begun_loads, read_loads = Bundle("begun loads"), Bundle("read loads")
    begun_writes, committed_writes = Bundle("begun writes"), Bundle("committed writes")
    untold = Bundle("commits elsewhere that the feed has not brought yet")

    def __init__(self) -> None:
        super().__init__()
        self.stored: Counter[Name] = Counter()
        self.in_flight: Counter[Name] = Counter()
        self.unknown: Counter[Name] = Counter()
        self.loads: list[_Load] = []
        self.cache: ClusterCache[int] = bounded(self._read, capacity=self.CAPACITY)

    async def _read(self, cluster: Name) -> int:
        await _Step()
        found = 1 + self.stored[cluster]
        await _Step()
        return found

    def _disturb(self, cluster: Name | None = None) -> None:
        for load in self.loads:
            load.disturbed |= cluster in {None, load.cluster}

    @rule(target=begun_loads, cluster=CLUSTERS)
    def begin_load(self, cluster: Name) -> _Load | MultipleResults[_Load]:
        if self.cache.cached(cluster) is not None:
            return multiple()
        self._disturb(cluster)
        load = _Load(cluster, self.cache.get(cluster), disturbed=self.in_flight[cluster] > 0)
        assert load.step() is None
        self.loads.append(load)
        return load

    @rule(target=read_loads, load=consumes(begun_loads))
    def read(self, load: _Load) -> _Load:
        assert load.step() is None
        return load

    @rule(load=consumes(read_loads))
    def end_load(self, load: _Load) -> None:
        kept = self.cache._values.get(load.cluster)
        value = load.step()
        assert value is not None
        self.loads.remove(load)
        now = self.cache._values.get(load.cluster)
        assert now == (kept if load.disturbed else value)

    @rule(cluster=CLUSTERS)
    def ask(self, cluster: Name) -> None:
        """A request from beginning to end: it sees every commit that the feed or its writer may have reported on this server."""
        if self.cache.cached(cluster) is None:
            self._disturb(cluster)
        load = _Load(cluster, self.cache.get(cluster))
        found = load.step() or load.step() or load.step()
        assert found is not None
        assert found + self.unknown[cluster] >= 1 + self.stored[cluster]
        assert self.in_flight[cluster] or self.cache._values.get(cluster) == found

    @rule(cluster=CLUSTERS)
    def evict(self, cluster: Name) -> None:
        """The budget is exceeded. Loads go on as if nothing had happened."""
        self.cache._part.evict(cluster)

    @rule(target=begun_writes, cluster=CLUSTERS, refused=st.booleans())
    def begin_write(self, cluster: Name, *, refused: bool) -> _Write:
        self.cache.writing(cluster)
        self.in_flight[cluster] += 1
        self._disturb(cluster)
        return _Write(cluster, refused)

    @rule(target=committed_writes, write=consumes(begun_writes))
    def commit(self, write: _Write) -> _Write:
        """From here on readers see it; its writer does not know yet."""
        self.stored[write.cluster] += not write.refused
        return write

    @rule(write=consumes(committed_writes))
    def acknowledge(self, write: _Write) -> None:
        self.cache.written(write.cluster)
        self.in_flight[write.cluster] -= 1
        self._disturb(write.cluster)

    @rule(cluster=CLUSTERS)
    def write(self, cluster: Name) -> None:
        """A write from beginning to end, while loads may stand still."""
        self.acknowledge(self.commit(self.begin_write(cluster, refused=False)))

    @rule(target=untold, cluster=CLUSTERS)
    def commit_elsewhere(self, cluster: Name) -> Name:
        self.stored[cluster] += 1
        self.unknown[cluster] += 1
        return cluster

    @rule(cluster=consumes(untold))
    def fanout(self, cluster: Name) -> None:
        self.cache.invalidate(cluster)
        self.unknown[cluster] -= 1
        self._disturb(cluster)

    @rule()
    def gap(self) -> None:
        self.cache.clear()
        self._disturb()

    @invariant()
    def it_is_bounded(self) -> None:
        assert len(self.cache) <= self.CAPACITY

    @invariant()
    def nothing_is_remembered_while_it_is_written(self) -> None:
        assert not [cluster for cluster, _ in self.cache._values.items() if self.in_flight[cluster]]

    @invariant()
    def what_is_remembered_is_what_is_stored(self) -> None:
        """Up to what other servers committed and the feed has not brought yet."""
        for cluster, value in self.cache._values.items():
            assert value + self.unknown[cluster] >= 1 + self.stored[cluster]

    @invariant()
    def nothing_is_noted_of_idle_clusters(self) -> None:
        assert set(self.cache._writing) == {cluster for cluster, writes in self.in_flight.items() if writes}
        assert set(self.cache._loading) <= {load.cluster for load in self.loads}

    def teardown(self) -> None:
        for load in self.loads:
            load.running.close()


TestMachine = ClusterCacheMachine.TestCase
TestMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
