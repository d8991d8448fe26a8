"""What large request bodies may take, through the exchange that reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.aio.slot import released_slot
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.server.bodybudget import LEAST_BYTES_PER_SECOND, LIGHT_BYTES, BodyBudget, Place
from kcp_py.server.exchange import Exchange
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

LARGE = LIGHT_BYTES + 1


class Request:
    """One request with a body, of which it is known how much was taken."""

    def __init__(self, bodies: BodyBudget, cluster: str, size: int, *, declared: bool = True) -> None:
        self.left = [size // 2, size - size // 2]
        self.sent = asyncio.Event()
        self.read_on = asyncio.Event()
        headers = [(b"content-length", str(size).encode())] if declared else []
        scope: dict[str, Any] = {"type": "http", "method": "POST", "headers": headers, "query_string": b"", "state": {}}
        self.exchange = Exchange(scope, self._receive, self._send, bodies)
        self.exchange.cluster = Name(cluster)
        self.exchange.audit_id = "id"

    async def _receive(self) -> dict[str, Any]:
        size = self.left.pop(0)
        return {"type": "http.request", "body": b"x" * size, "more_body": bool(self.left)}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.sent.set()
            await self.read_on.wait()


async def test_large_bodies_are_not_read_before_their_turn() -> None:
    """A body beyond the bound of its cluster stays unread until the earlier one was answered; another cluster's is read."""
    bodies = BodyBudget(100 * LARGE, LARGE)
    first, second, other = (Request(bodies, cluster, LARGE) for cluster in "aab")
    assert len(await first.exchange.read_body()) == LARGE
    reading = asyncio.create_task(second.exchange.read_body())
    assert len(await other.exchange.read_body()) == LARGE
    await until_idle()
    assert len(second.left) == 2
    first.exchange.release()
    assert len(await reading) == LARGE
    for request in (second, other):
        request.exchange.release()
    assert (bodies.held.given, bodies.worked_on.given) == (0, 0)


async def test_light_bodies_are_read_at_once() -> None:
    """Whatever waits, bodies that are not large do not."""
    bodies = BodyBudget(LARGE, LARGE)
    await Request(bodies, "a", LARGE).exchange.read_body()
    assert len(await Request(bodies, "a", LIGHT_BYTES).exchange.read_body()) == LIGHT_BYTES
    assert bodies.held.given == LARGE


async def test_bodies_of_unknown_size_take_the_limit_until_their_size_is_known() -> None:
    """A body without Content-Length waits once it has become large, and holds what it turned out to be."""
    bodies = BodyBudget(100 * LARGE, 4 * LARGE)
    first, second = (Request(bodies, "a", LARGE, declared=False) for _ in range(2))
    await first.exchange.read_body(4 * LARGE)
    assert bodies.held.given == LARGE
    reading = asyncio.create_task(second.exchange.read_body(4 * LARGE))
    await until_idle()
    assert not reading.done()
    first.exchange.release()
    await reading


async def test_a_slow_reader_of_an_answer_delays_no_work() -> None:
    """Once a request is answered the next body is worked on, though its bytes count until the client has read the answer."""
    bodies = BodyBudget(800 * LARGE, 4 * LARGE)
    first, second = (Request(bodies, "a", LARGE) for _ in range(2))
    await first.exchange.read_body()
    waiting = asyncio.create_task(second.exchange.read_body())
    await until_idle()
    assert not waiting.done()
    answering = asyncio.create_task(first.exchange.respond(200, b"{}"))
    await first.sent.wait()
    await waiting
    assert bodies.held.given == 2 * LARGE
    first.read_on.set()
    await answering
    first.exchange.release()
    assert bodies.held.given == LARGE


async def test_too_many_are_refused() -> None:
    """What cannot wait is answered with 429 and a time to come back, unread."""
    bodies = BodyBudget(LARGE, LARGE, queue=1)
    await Request(bodies, "a", LARGE).exchange.read_body()
    waiting = asyncio.create_task(Request(bodies, "a", LARGE).exchange.read_body())
    await until_idle()
    refused = Request(bodies, "a", LARGE)
    with pytest.raises(StatusError) as caught:
        await refused.exchange.read_body()
    assert (caught.value.code, caught.value.retry_after_seconds) == (429, 5)
    assert len(refused.left) == 2
    waiting.cancel()


async def test_space_is_held_only_for_those_who_send() -> None:
    """A body that does not arrive in time is 408, and its reservation is freed; each part that arrives gives more time."""
    bodies = BodyBudget(LARGE, LARGE, grace=0)
    slow = Request(bodies, "a", LARGE)

    async def never() -> Any:
        await asyncio.Event().wait()

    slow.exchange.receive = never
    with pytest.raises(StatusError) as caught:
        await slow.exchange.read_body()
    slow.exchange.release()
    assert (caught.value.code, bodies.held.given) == (408, 0)
    place = Place(bodies, "a")
    await place.hold(LARGE)
    assert place.deadline(10 * LEAST_BYTES_PER_SECOND) - place.deadline(0) == pytest.approx(10)


async def test_who_waits_for_the_network_leaves_the_work_to_others() -> None:
    """Its place is free meanwhile, and taken again behind those who have come; its bytes stay counted."""
    bodies = BodyBudget(8 * LARGE, 8 * LARGE)
    first, second = (Request(bodies, cluster, LARGE) for cluster in "ab")
    await first.exchange.read_body()
    answered, went_on = asyncio.Event(), asyncio.Event()

    async def ask() -> None:
        async with released_slot():
            await answered.wait()
        went_on.set()

    asking = asyncio.create_task(ask())
    await until_idle()
    assert (bodies.held.given, bodies.worked_on.given) == (LARGE, 0)
    await second.exchange.read_body()
    answered.set()
    await until_idle()
    assert not went_on.is_set()
    second.exchange.release()
    await asking
    assert bodies.worked_on.given_to("a") == LARGE
    first.exchange.release()
    assert (bodies.held.given, bodies.worked_on.given) == (0, 0)
    async with released_slot():
        pass
    assert (bodies.held.given, bodies.worked_on.given) == (0, 0)


async def test_a_request_that_ends_while_it_waits_for_its_place_keeps_none() -> None:
    """A client may leave at any time."""
    bodies = BodyBudget(8 * LARGE, 8 * LARGE)
    first, second = (Request(bodies, cluster, LARGE) for cluster in "ab")
    await first.exchange.read_body()

    async def ask() -> None:
        async with released_slot():
            await second.exchange.read_body()

    asking = asyncio.create_task(ask())
    await until_idle()
    first.exchange.release()
    second.exchange.release()
    await asking
    assert (bodies.held.given, bodies.worked_on.given) == (0, 0)
