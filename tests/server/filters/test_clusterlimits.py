"""A cluster gets as many requests and watches as its limits say, and takes none from others."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.apimachinery.errors import StatusError, internal
from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import Limits
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.clusterlimits import ClusterLimitsFilter, Shares
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter
from kcp_py.storage.contract import UnavailableError

pytestmark = pytest.mark.anyio

ALICE = [("authorization", "Bearer alice")]
ADMIN = [("authorization", "Bearer admin")]
STATED = frozenset({"watches", "requests"})


class States:
    """Clusters with limits; some of them are not cached."""

    def __init__(self, **limits: Limits) -> None:
        self.states = {name: ClusterState(Name(name), "uid", 1, "", limits=limit) for name, limit in limits.items()}
        self.hidden = False
        self.failing = False

    def cached(self, cluster: Name) -> ClusterState | None:
        return None if self.hidden else self.states.get(cluster)

    async def state(self, cluster: Name) -> ClusterState | None:
        if self.failing:
            raise UnavailableError("the store is away")
        return self.states.get(cluster)


class Resources:
    """Answers at once; watches go on until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = asyncio.Semaphore(0)
        self.failure: StatusError | None = None
        self.fails_late = False

    async def __call__(self, exchange: Any) -> None:
        if self.failure is not None:
            raise self.failure
        if exchange.info.verb == "watch" and b"empty" not in exchange.scope["query_string"]:
            await exchange.start_stream()
            exchange.continuation = partial(self._stream, exchange)
            return
        await exchange.respond(200, b"{}")

    async def _stream(self, exchange: Any) -> None:
        self.running.release()
        await self.go.wait()
        if self.fails_late:
            raise RuntimeError("the stream broke")
        await exchange.finish()


class World:
    """The filter between a client and resources, with a clock of the test."""

    def __init__(self, tokens: Any, **limits: Limits) -> None:
        self.now = 100.0
        self.states = States(**limits)
        self.shares = Shares(clock=lambda: self.now)
        self.resources = Resources()
        filters = (
            ErrorsFilter,
            partial(ClusterFilter, default_cluster=Name("a")),
            RequestInfoFilter,
            partial(AuthenticationFilter, authenticator=tokens),
            partial(ClusterLimitsFilter, states=self.states, shares=self.shares),
        )
        self.app = compose(filters, self.resources)


@pytest.fixture
def world(tokens: Any) -> World:
    """Cluster a has two requests per second and three at once, cluster b two watches, cluster c nothing."""
    return World(
        tokens,
        a=Limits(requests=2, burst=3, stated=STATED),
        b=Limits(watches=2, stated=STATED),
        c=Limits(),
        d=Limits(requests=1, watches=1),
    )


async def test_requests_refill_with_time(ask, world):
    """A burst at once, then the rate; the refusal says when to come again."""
    assert [(await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status for _ in range(3)] == [200] * 3
    refused = await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)
    assert (refused.status, refused.json()["reason"], refused.header("retry-after")) == (429, "TooManyRequests", "1")
    assert refused.json()["message"] == (
        'logical cluster "a" has reached its limit of 2 requests per second (kcp-py.io/max-requests-per-second), please try again later'
    )
    world.now += 0.5
    assert [(await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status for _ in range(2)] == [200, 429]
    world.now += 3600
    assert [(await ask(world.app, "/clusters/a/apis", headers=ALICE)).status for _ in range(4)] == [200] * 3 + [429]
    assert world.shares.refused() == {("requests",): 3.0, ("watches",): 0.0}


@pytest.mark.parametrize("path", ["/clusters/c/api/v1/pods", "/clusters/a/healthz", "/clusters/a/version", "/clusters/*/api/v1/pods"])
async def test_other_requests_are_not_counted(ask, world, path):
    """Other clusters, all of them together, and pages."""
    for _ in range(10):
        assert (await ask(world.app, path, headers=ALICE)).status == 200
    assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status == 200


async def test_administrators_of_all_clusters_are_not_counted(ask, world):
    """They neither wait nor use up what the cluster has."""
    for _ in range(10):
        assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ADMIN)).status == 200
    for _ in range(3):
        assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status == 200
    assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ADMIN)).status == 200


async def test_limits_that_are_not_cached_are_read(ask, world):
    """A cluster that does not exist has none, and an outage is left to what answers."""
    world.states.hidden = True
    for _ in range(3):
        assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status == 200
    assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status == 429
    assert (await ask(world.app, "/clusters/nowhere/api/v1/pods", headers=ALICE)).status == 200
    world.states.failing = True
    assert (await ask(world.app, "/clusters/a/api/v1/pods", headers=ALICE)).status == 200


async def _watch(ask: Any, world: World, cluster: str = "b") -> asyncio.Task[Any]:
    task = asyncio.create_task(ask(world.app, f"/clusters/{cluster}/api/v1/pods?watch=1", headers=ALICE))
    await world.resources.running.acquire()
    return task


async def test_watches_are_counted_while_they_run(ask, world):
    """One more is refused, and lists are not; what ends makes room."""
    watches = [await _watch(ask, world) for _ in range(2)]
    refused = await ask(world.app, "/clusters/b/api/v1/watch/pods", headers=ALICE)
    assert (refused.status, refused.header("retry-after")) == (429, "1")
    assert refused.json()["message"] == (
        'logical cluster "b" has reached its limit of 2 watches (kcp-py.io/max-watches), please try again later'
    )
    assert (await ask(world.app, "/clusters/b/api/v1/pods", headers=ALICE)).status == 200
    assert (await ask(world.app, "/clusters/c/api/v1/pods?watch=1&empty", headers=ALICE)).status == 200
    admin = asyncio.create_task(ask(world.app, "/clusters/b/api/v1/pods?watch=1", headers=ADMIN))
    await world.resources.running.acquire()
    world.resources.go.set()
    assert [answer.status for answer in await asyncio.gather(*watches, admin)] == [200] * 3
    assert world.shares.watches(Name("b")) == 0
    assert world.shares.refused()["watches",] == 1


@pytest.mark.parametrize("end", ["refused", "empty", "cut", "broken", "failing"])
async def test_every_end_of_a_watch_makes_room(ask, world, end):
    """Whether it began or not."""
    for _ in range(5):
        match end:
            case "refused":
                world.resources.failure = internal("no")
                assert (await ask(world.app, "/clusters/b/api/v1/pods?watch=1", headers=ALICE)).status == 500
            case "empty":
                assert (await ask(world.app, "/clusters/b/api/v1/pods?watch=1&empty", headers=ALICE)).status == 200
            case "cut":
                task = await _watch(ask, world)
                assert world.shares.watches(Name("b")) == 1
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            case _:
                world.resources.fails_late = end == "broken"
                task = await _watch(ask, world)
                world.resources.go.set()
                assert (await task).status == 200
        assert world.shares.watches(Name("b")) == 0


async def test_defaults_are_named_by_their_options(ask, world):
    """An administrator finds where the limit comes from; a watch is a request, too."""
    await _watch(ask, world, "d")
    assert (await ask(world.app, "/clusters/d/api/v1/pods", headers=ALICE)).status == 200
    refused = await ask(world.app, "/clusters/d/api/v1/pods", headers=ALICE)
    assert "limit of 1 requests per second (--logical-cluster-request-limit)" in refused.json()["message"]
    world.now += 1
    refused = await ask(world.app, "/clusters/d/api/v1/pods?watch=1", headers=ALICE)
    assert "limit of 1 watches (--logical-cluster-watch-limit)" in refused.json()["message"]
    world.resources.go.set()


def test_requests_of_all_processes_are_of_one_bucket():
    """Whichever process answers, a cluster has its burst and then its rate; other clusters have theirs."""
    shared = SharedCounts(3)
    now = 100.0
    parts = [Shares(clock=lambda: now, instants=shared.of(number)) for number in range(3)]
    limits = Limits(requests=2, burst=6, stated=STATED)

    def granted(cluster: str, attempts: int) -> int:
        count = 0
        for number in range(attempts):
            try:
                parts[number % 3].take_request(Name(cluster), limits)
            except StatusError:
                continue
            else:
                count += 1
        return count

    assert granted("a", 30) == 6
    assert granted("b", 30) == 6
    now += 1
    assert granted("a", 30) == 2
    now += 1.5
    assert granted("a", 30) == 3
    now += 60
    assert granted("a", 30) == 6
    now += 3
    # What one process has not used in the meantime is not kept for it.
    for _ in range(6):
        parts[1].take_request(Name("a"), limits)
    assert granted("a", 30) == 0


def test_raised_limits_hold_at_once_in_all_processes():
    """A cluster that has used up a slow limit is not refused by other processes until the slow limit has its burst again."""
    shared = SharedCounts(2)
    now = 100.0
    parts = [Shares(clock=lambda: now, instants=shared.of(number)) for number in range(2)]
    slow = Limits(requests=1, burst=600, stated=STATED)
    for _ in range(600):
        parts[0].take_request(Name("a"), slow)
    with pytest.raises(StatusError):
        parts[1].take_request(Name("a"), slow)
    fast = Limits(requests=100, stated=STATED)
    now += 1
    for part in reversed(parts):
        part.take_request(Name("a"), fast)


def test_watches_of_all_processes_count():
    """Watches of another process take places until they end."""
    shared = SharedCounts(2)
    first, second = (Shares(counts=shared.of(number)) for number in range(2))
    limits = Limits(watches=2, stated=STATED)
    end = first.begin_watch(Name("a"), limits)
    second.begin_watch(Name("a"), limits)
    for one in (first, second):
        with pytest.raises(StatusError) as caught:
            one.begin_watch(Name("a"), limits)
        assert caught.value.code == 429
    first.begin_watch(Name("b"), limits)
    end()
    second.begin_watch(Name("a"), limits)
