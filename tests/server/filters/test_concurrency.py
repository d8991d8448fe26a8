from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.aio.slot import released_slot
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.concurrency import ConcurrencyFilter, InFlight, JointInFlight
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter

pytestmark = pytest.mark.anyio

ALICE = [("authorization", "Bearer alice")]
ADMIN = [("authorization", "Bearer admin")]


class Held:
    """An application whose requests last until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = asyncio.Semaphore(0)

    async def __call__(self, exchange):
        self.running.release()
        await self.go.wait()
        await exchange.respond(200, b"{}")


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def app(held, tokens):
    filters = (
        ErrorsFilter,
        partial(ClusterFilter, default_cluster=ROOT),
        RequestInfoFilter,
        partial(AuthenticationFilter, authenticator=tokens),
        partial(ConcurrencyFilter, fairness=InFlight(reads=2, writes=1)),
    )
    return compose(filters, held)


async def test_bounds(ask, app, held):
    """Over the bound a request is told to come again; reads and writes have a bound each; what ends makes room."""
    reads = [asyncio.create_task(ask(app, "/api/v1/pods", headers=ALICE)) for _ in range(2)]
    for _ in reads:
        await held.running.acquire()
    refused = await ask(app, "/api/v1/pods", headers=ALICE)
    assert (refused.status, refused.json()["reason"], refused.header("retry-after")) == (429, "TooManyRequests", "1")
    assert refused.json()["message"] == "Too many requests, please try again later."
    write = asyncio.create_task(ask(app, "/api/v1/pods", method="POST", headers=ALICE))
    await held.running.acquire()
    assert (await ask(app, "/api/v1/pods/x", method="DELETE", headers=ALICE)).status == 429
    held.go.set()
    assert [answer.status for answer in await asyncio.gather(*reads, write)] == [200, 200, 200]
    assert (await ask(app, "/api/v1/pods", headers=ALICE)).status == 200


async def test_watches_and_administrators_are_not_counted(ask, app, held):
    """Watches last too long to be counted, and an administrator must be able to look at a busy server."""
    tasks = [asyncio.create_task(ask(app, "/api/v1/pods", headers=ALICE)) for _ in range(2)]
    tasks.append(asyncio.create_task(ask(app, "/api/v1/pods?watch=1", headers=ALICE)))
    tasks.append(asyncio.create_task(ask(app, "/api/v1/pods", headers=ADMIN)))
    for _ in tasks:
        await held.running.acquire()
    held.go.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}


async def test_cancelled_requests_make_room(ask, app, held):
    """A request that is cut off gives its place back."""
    for _ in range(5):
        task = asyncio.create_task(ask(app, "/api/v1/pods", method="POST", headers=ALICE))
        await held.running.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_requests_that_wait_for_webhooks_have_no_place(ask, tokens):
    """Others may have it; afterwards such a request goes on over the bound, and every place is free at the end."""
    go, waits, resumed, ended = asyncio.Event(), asyncio.Semaphore(0), asyncio.Semaphore(0), asyncio.Event()

    async def handler(exchange):
        async with released_slot():
            waits.release()
            await go.wait()
        resumed.release()
        await ended.wait()
        await exchange.respond(200, b"{}")

    fairness = InFlight(reads=1, writes=1)
    filters = (
        ErrorsFilter,
        partial(ClusterFilter, default_cluster=ROOT),
        RequestInfoFilter,
        partial(AuthenticationFilter, authenticator=tokens),
        partial(ConcurrencyFilter, fairness=fairness),
    )
    app = compose(filters, handler)
    writes = [asyncio.create_task(ask(app, "/api/v1/pods", method="POST", headers=ALICE)) for _ in range(3)]
    for _ in writes:
        await waits.acquire()
    go.set()
    for _ in writes:
        await resumed.acquire()
    assert (await ask(app, "/api/v1/pods", method="POST", headers=ALICE)).status == 429
    ended.set()
    assert [answer.status for answer in await asyncio.gather(*writes)] == [200] * 3
    # The context of this task may still know a place that has ended.
    for headers in (ALICE, ADMIN, ALICE):
        assert (await ask(app, "/api/v1/pods", method="POST", headers=headers)).status == 200
    write: Any = SimpleNamespace(info=SimpleNamespace(verb="create"))
    await fairness.acquire(write)
    with pytest.raises(StatusError):
        await fairness.acquire(write)


def _context(verb: str) -> Any:
    return SimpleNamespace(info=SimpleNamespace(verb=verb))


async def test_bounds_hold_for_all_processes():
    """Requests of another process take places until they end; a process that has ended takes none."""
    shared = SharedCounts(2)
    first, second = (JointInFlight(shared.of(number), reads=3, writes=1) for number in range(2))
    await first.acquire(_context("get"))
    await first.acquire(_context("list"))
    await second.acquire(_context("get"))
    for one in (first, second):
        with pytest.raises(StatusError, match="Too many requests"):
            await one.acquire(_context("get"))
    await second.acquire(_context("create"))
    with pytest.raises(StatusError, match="Too many requests"):
        await first.acquire(_context("update"))
    first.release(_context("list"))
    await second.acquire(_context("get"))
    second.readmit(_context("get"))
    shared.clear(1)
    await first.acquire(_context("update"))
    await first.acquire(_context("get"))
