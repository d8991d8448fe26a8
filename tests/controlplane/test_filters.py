"""Filters that a program passes to its control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kcp_py import ControlPlane, Exchange, Filter, Handler, errors
from tests.server.handlers.conftest import Api, config_map, options

pytestmark = pytest.mark.anyio

MAPS = "/clusters/{}/api/v1/namespaces/default/configmaps"


class Requests:
    """What a filter saw: the place of the filter, user, cluster and verb of each request, and the status of its answer."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str, int]] = []

    def filter(self, place: str) -> Filter:
        """A filter that notes each request when the handler has returned."""

        def wrap(handler: Handler) -> Handler:
            async def noting(exchange: Exchange) -> None:
                context = exchange.context
                try:
                    await handler(exchange)
                finally:
                    self.seen.append((place, context.user.name, str(context.cluster), context.info.verb, exchange.status))

            return noting

        return wrap


def closed(handler: Handler) -> Handler:
    """Refuses writes to the logical cluster `closed`, and warns of every other write."""

    async def call(exchange: Exchange) -> None:
        if exchange.context.info.verb in {"create", "update", "patch", "delete"}:
            if exchange.context.cluster == "closed":
                raise errors.service_unavailable("the cluster is closed", retry_after_seconds=60)
            exchange.warnings.append("this server moves tomorrow")
        await handler(exchange)

    return call


def answering(handler: Handler) -> Handler:
    """Answers one path itself."""

    async def call(exchange: Exchange) -> None:
        if exchange.path == "/motd":
            await exchange.respond(200, b'{"text":"hello"}')
        else:
            await handler(exchange)

    return call


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
async def api(tmp_path: Path, requests: Requests) -> AsyncIterator[Api]:
    filters = [requests.filter("outer"), closed, answering, requests.filter("inner")]
    async with ControlPlane(options(tmp_path), filters=filters) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def test_filters_wrap_the_handler_in_their_order(api: Api, requests: Requests) -> None:
    """Each sees user, cluster and verb before the handler answers, and the status afterwards."""
    await api.ok("GET", MAPS.format("a"))
    assert requests.seen == [("inner", "shard-admin", "a", "list", 200), ("outer", "shard-admin", "a", "list", 200)]


async def test_a_filter_refuses(api: Api, requests: Requests) -> None:
    """Its StatusError is the answer, and neither further filters nor the handler see the request."""
    refused = await api("POST", MAPS.format("closed"), config_map("one"))
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["message"]) == (503, "60", "the cluster is closed")
    assert requests.seen == [("outer", "shard-admin", "closed", "create", 0)]
    assert (await api.ok("GET", MAPS.format("closed")))["items"] == []


async def test_a_filter_warns(api: Api) -> None:
    """Warnings that it adds before the handler answers are headers of the answer."""
    made = await api("POST", MAPS.format("a"), config_map("one"))
    assert made.status_code == 201
    assert made.headers["warning"] == '299 - "this server moves tomorrow"'
    assert "warning" not in (await api("GET", MAPS.format("a"))).headers


async def test_a_filter_answers(api: Api, requests: Requests) -> None:
    """A path of its own needs the same permission as every other."""
    answer = await api("GET", "/motd")
    assert (answer.status_code, answer.json(), answer.headers["cache-control"]) == (200, {"text": "hello"}, "no-cache, private")
    assert (await api("GET", "/motd", headers={"Authorization": ""})).status_code == 403
    assert requests.seen == [("outer", "shard-admin", "root", "get", 200)]


@pytest.mark.parametrize(("path", "token", "status"), [("/api", "Bearer guess", 401), ("/api", "", 403), ("/clusters/A/api", None, 400)])
async def test_refused_requests_reach_no_filter(api: Api, requests: Requests, path: str, token: str | None, status: int) -> None:
    """Authentication, authorization and the form of the request come first."""
    headers = {} if token is None else {"Authorization": token}
    assert (await api("GET", path, headers=headers)).status_code == status
    assert requests.seen == []


async def test_a_watch_goes_on_behind_the_filters(api: Api, requests: Requests) -> None:
    """A filter returns when the stream has begun, not when it ends."""
    watch = asyncio.ensure_future(api("GET", MAPS.format("a"), params={"watch": "1", "timeoutSeconds": "60"}))
    async with asyncio.timeout(30):
        while not requests.seen:
            await asyncio.sleep(0)
    assert requests.seen == [(place, "shard-admin", "a", "watch", 200) for place in ("inner", "outer")]
    assert not watch.done()
    api.control_plane.begin_shutdown()
    assert (await watch).status_code == 200
