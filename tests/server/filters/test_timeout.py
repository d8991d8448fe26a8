from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter
from kcp_py.server.filters.timeout import TimeoutFilter

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Waiting:
    """An application that answers once it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.entered = asyncio.Event()
        self.cancelled = False

    async def __call__(self, exchange):
        self.entered.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await exchange.respond(200, b"{}")


class Chain:
    def __init__(self, app) -> None:
        self.clock = Clock()
        made: list[TimeoutFilter] = []

        def make(inner):
            made.append(TimeoutFilter(inner, seconds=60, now=self.clock))
            return made[0]

        self.app = compose((ErrorsFilter, partial(ClusterFilter, default_cluster=ROOT), RequestInfoFilter, make), app)
        self.filter = made[0]


async def test_common_deadline(ask):
    """A request that takes longer than the server allows is ended with 504."""
    waiting = Waiting()
    chain = Chain(waiting)
    task = asyncio.create_task(ask(chain.app, "/api/v1/pods"))
    await waiting.entered.wait()
    chain.clock.now = 59.9
    chain.filter.sweep()
    await asyncio.sleep(0)
    assert not waiting.cancelled
    chain.clock.now = 60.1
    chain.filter.sweep()
    answer = await task
    assert waiting.cancelled
    assert (answer.status, answer.json()["reason"]) == (504, "Timeout")
    assert answer.json()["message"] == "Timeout: request did not complete within requested timeout - context deadline exceeded"
    assert not task.cancelled()


async def test_only_the_late_are_ended(ask):
    """A sweep ends requests that are past their deadline and no others."""
    first, second = Waiting(), Waiting()
    apps = iter([first, second])

    async def either(*arguments):
        await next(apps)(*arguments)

    chain = Chain(either)
    early = asyncio.create_task(ask(chain.app, "/api/v1/pods"))
    await first.entered.wait()
    chain.clock.now = 30
    late = asyncio.create_task(ask(chain.app, "/api/v1/pods"))
    await second.entered.wait()
    chain.clock.now = 61
    chain.filter.sweep()
    assert (await early).status == 504
    second.go.set()
    assert (await late).status == 200


async def test_asked_deadline(ask):
    """A client may ask for an earlier end."""
    answer = await ask(Chain(Waiting()).app, "/api/v1/pods?timeout=1ms")
    assert (answer.status, answer.json()["reason"]) == (504, "Timeout")


@pytest.mark.parametrize("timeout", ["10m", "0s", "0", "-5s", ""])
async def test_common_deadline_stays(ask, timeout):
    """More than the server's own time cannot be asked for; nothing and less than nothing mean the server's own."""
    waiting = Waiting()
    chain = Chain(waiting)
    task = asyncio.create_task(ask(chain.app, f"/api/v1/pods?timeout={timeout}"))
    await waiting.entered.wait()
    chain.clock.now = 61
    chain.filter.sweep()
    assert (await task).status == 504


async def test_invalid_timeout(ask, probe):
    """A timeout that is not a duration is 400."""
    answer = await ask(Chain(probe).app, "/api/v1/pods?timeout=invalid")
    assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
    assert answer.json()["message"] == 'invalid timeout specified in the request URL - time: invalid duration "invalid"'


async def test_watches_have_no_deadline(ask):
    """A watch lasts, whatever the timeout parameter says."""
    waiting = Waiting()
    chain = Chain(waiting)
    task = asyncio.create_task(ask(chain.app, "/api/v1/pods?watch=1&timeout=1ms"))
    await waiting.entered.wait()
    chain.clock.now = 1e6
    chain.filter.sweep()
    waiting.go.set()
    assert (await task).status == 200


async def test_cancellation_from_outside(ask):
    """Being cancelled by others is not a timeout."""
    waiting = Waiting()
    task = asyncio.create_task(ask(Chain(waiting).app, "/api/v1/pods"))
    await waiting.entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_timeouts_of_handlers_are_their_own(ask):
    """A TimeoutError of a handler is an internal error, not the request's deadline."""

    async def app(_exchange):
        raise TimeoutError

    assert (await ask(Chain(app).app, "/api/v1/pods?timeout=10s")).status == 500


async def test_nothing_is_kept(ask, probe):
    """Requests that have ended leave nothing behind."""
    chain = Chain(probe)
    for _ in range(3):
        await ask(chain.app, "/api/v1/pods")
    assert not chain.filter._waiting
    chain.filter.sweep()
    assert chain.filter._timer is None


async def test_a_request_within_a_request(ask):
    """A handler that passes its request through the same filter again keeps the deadline of the outer request."""
    waiting = Waiting()
    chains: list[Chain] = []
    depth = 0

    async def app(exchange):
        nonlocal depth
        depth += 1
        await (chains[0].filter(exchange) if depth == 1 else waiting(exchange))

    chains.append(Chain(app))
    task = asyncio.create_task(ask(chains[0].app, "/api/v1/pods"))
    await waiting.entered.wait()
    chains[0].clock.now = 61
    chains[0].filter.sweep()
    assert (await task).status == 504
    assert not chains[0].filter._waiting
