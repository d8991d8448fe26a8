"""The caches of all clusters share one bound of memory, and the clusters that were not used for longest leave all of them."""

from __future__ import annotations

import asyncio
import weakref

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcp_py.registry import clusterbudget
from kcp_py.registry.clusterbudget import ClusterBudget, Part
from tests.eventloop import until_idle


class Compiled:
    """A value that clusters share."""

    def __init__(self, memory: int) -> None:
        self.memory = memory


class Cache:
    """Entries of clusters, counted against a budget."""

    def __init__(self, budget: ClusterBudget, name: str = "cache") -> None:
        self.entries: dict[str, int] = {}
        self.part: Part[str] = budget.part(name, self.entries.pop)

    def put(self, cluster: str, size: int = 1000, shared: tuple[Compiled, ...] = ()) -> None:
        self.entries[cluster] = size
        self.part.hold(cluster, size, shared)


def test_the_longest_unused_leaves_all_caches():
    """A cluster is evicted as a whole, and uses in one cache keep it in the others."""
    budget = ClusterBudget(5000)
    first, second = Cache(budget), Cache(budget)
    for cluster in "ab":
        first.put(cluster)
        second.put(cluster)
    budget.use("a")
    first.put("c")
    assert (set(first.entries), set(second.entries)) == ({"a", "c"}, {"a"})
    assert (budget.evictions, len(budget)) == (1, 2)


def test_a_key_that_is_not_used_any_more():
    """All caches remove what they have of a key, whatever the budget is, and nothing of other keys."""
    budget = ClusterBudget(1_000_000)
    first, second = Cache(budget), Cache(budget)
    shared = Compiled(5000)
    first.put("a", shared=(shared,))
    second.put("a")
    second.put("b")
    of_others = 1000 + clusterbudget._BOOKKEEPING
    budget.evict("a")
    assert (first.entries, second.entries) == ({}, {"b": 1000})
    assert (budget.size, len(budget), budget.evictions) == (of_others, 1, 0)
    budget.evict("unknown")
    assert budget.size == of_others


@pytest.mark.parametrize("capacity", [0, 1, 999])
def test_the_last_cluster_is_kept_whatever_it_takes(capacity: int):
    """A budget that is too small for any cluster has room for the one that was used last, so that it is not read for each request."""
    budget = ClusterBudget(capacity)
    cache = Cache(budget)
    for cluster in "abc":
        cache.put(cluster, 10_000)
        assert set(cache.entries) == {cluster}
    cache.put("c", 20_000)
    assert cache.entries == {"c": 20_000}


def test_shared_values_are_counted_once():
    """What several clusters have in common counts until the last of them gives it up."""
    budget = ClusterBudget(1_000_000)
    cache, compiled = Cache(budget), Compiled(50_000)
    before = budget.size
    cache.put("a", 0, (compiled,))
    alone = budget.size
    cache.put("b", 0, (compiled,))
    assert alone - before > 50_000
    assert budget.size - alone < 1_000
    assert budget.sizes()["shared",] == 50_000
    cache.put("a", 0)
    assert budget.sizes()["shared",] == 50_000
    cache.part.release("b")
    assert budget.sizes()["shared",] == 0
    cache.part.release("a")
    assert (budget.size, len(budget)) == (before, 0)


def test_a_shared_value_can_fill_the_budget():
    """Clusters are evicted until those that are left share few enough values."""
    budget = ClusterBudget(100_000)
    cache = Cache(budget)
    large = Compiled(90_000)
    cache.put("a", 0, (large,))
    cache.put("b", 0, (Compiled(80_000),))
    assert set(cache.entries) == {"b"}
    cache.put("a", 0, (large,))
    assert set(cache.entries) == {"a"}
    assert budget.size < 100_000


def test_metrics_tell_caches_apart():
    """Caches of one name are one figure."""
    budget = ClusterBudget()
    for name in ("one", "one", "other"):
        Cache(budget, name).put("a")
    sizes = budget.sizes()
    assert sizes["one",] == 2 * sizes["other",] > 2000
    assert sum(sizes.values()) == budget.size


@pytest.mark.anyio
async def test_many_evictions_take_turns(monkeypatch: pytest.MonkeyPatch):
    """A large entry evicts many clusters in turns with other tasks, and all of them in the end."""
    monkeypatch.setattr(clusterbudget, "_TURN_SECONDS", 0.0)
    budget = ClusterBudget(1_000_000)
    cache = Cache(budget)
    for number in range(500):
        cache.put(f"c{number}")
    cache.put("large", 900_000)
    turns = 0
    assert len(budget) > 400
    while budget.size > budget.capacity:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 100
    await until_idle()
    assert "large" in cache.entries
    assert budget.size <= budget.capacity


@pytest.mark.anyio
async def test_many_values_are_freed_in_turns(monkeypatch: pytest.MonkeyPatch):
    """The values of an evicted entry that come in a list go one by one, in turns with other tasks, and all of them in the end."""
    monkeypatch.setattr(clusterbudget, "_TURN_SECONDS", 0.0)
    budget = ClusterBudget(0)
    values = [Compiled(1) for _ in range(100)]
    left = [weakref.ref(value) for value in values]
    part: Part[str] = budget.part("definitions", lambda _: values)
    part.hold("a", 1000)
    part.hold("b", 1000)
    assert len(budget) == 1
    counts = []
    while values:
        counts.append(sum(ref() is not None for ref in left))
        await asyncio.sleep(0)
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 50
    await until_idle()
    assert not any(ref() is not None for ref in left)


class BudgetMachine(RuleBasedStateMachine):
    """Three caches with entries of any size; what the budget says is what they have."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = ClusterBudget(20_000)
        self.caches = [Cache(self.budget) for _ in range(3)]
        self.values = [Compiled(4_000 * number) for number in range(4)]
        self.last = ""

    @rule(cache=st.integers(0, 2), cluster=st.sampled_from("abcdefgh"), size=st.integers(0, 9_000), shared=st.sets(st.integers(0, 3)))
    def hold(self, cache: int, cluster: str, size: int, shared: set[int]) -> None:
        self.caches[cache].put(cluster, size, tuple(self.values[number] for number in shared))
        assert cluster in self.caches[cache].entries

    @rule(cache=st.integers(0, 2), cluster=st.sampled_from("abcdefgh"))
    def drop(self, cache: int, cluster: str) -> None:
        if self.caches[cache].entries.pop(cluster, None) is not None:
            self.caches[cache].part.release(cluster)

    @rule(cache=st.integers(0, 2))
    def clear(self, cache: int) -> None:
        self.caches[cache].entries.clear()
        self.caches[cache].part.clear()

    @rule(cluster=st.sampled_from("abcdefgh"))
    def use(self, cluster: str) -> None:
        self.budget.use(cluster)

    @invariant()
    def agrees(self) -> None:
        assert [set(cache.entries) for cache in self.caches] == [set(cache.part._sizes) for cache in self.caches]
        assert len(self.budget) == len({cluster for cache in self.caches for cluster in cache.entries})
        assert self.budget.size == sum(self.budget.sizes().values())
        assert self.budget.size <= self.budget.capacity or len(self.budget) == 1


TestBudget = BudgetMachine.TestCase
