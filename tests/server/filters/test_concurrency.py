from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.concurrency import ConcurrencyFilter, InFlight
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
