"""What a watch costs while nothing happens, and how it ends with its server. What it tells is tested with the other reads."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message

from kcp_py.watchcache import ObjectEvent
from tests.server.handlers.conftest import Api, Watch, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"


def variables(task: asyncio.Task[None]) -> Iterator[Any]:
    """The values of all variables in the coroutines that a task is suspended in."""
    coroutine: Any = task.get_coro()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield from frame.f_locals.values()
        coroutine = coroutine.cr_await


async def test_an_idle_watch_keeps_nothing_of_what_it_has_sent(api: Api) -> None:
    """Neither events nor lines of them are held by a watch that waits for more."""
    first = await api.ok("POST", MAPS, config_map("zero"))
    feed = api.control_plane.backend.feed
    for name in ("kept-one", "kept-two"):
        await api.ok("POST", MAPS, config_map(name))
    async with Watch(api, MAPS, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert [await watch.brief() for _ in range(2)] == [("ADDED", "kept-one"), ("ADDED", "kept-two")]
        (watcher,) = feed._hubs["/registry/core/configmaps/"].by_cluster["a"]
        while watcher._waiter is None or watcher._waiter.done():
            await asyncio.sleep(0)
        feed._ring._events.clear()
        assert not [event for event in gc.get_objects() if isinstance(event, ObjectEvent) and event.route.name.startswith("kept-")]
        assert watch.task is not None
        assert not [value for value in variables(watch.task) if isinstance(value, bytes)]


async def test_no_watch_begins_when_the_server_is_about_to_stop(api: Api) -> None:
    """503 with Retry-After, so that the client turns to another server, while other requests are answered."""
    await api.ok("POST", MAPS, config_map("zero"))
    api.control_plane.begin_shutdown()
    refused = await asyncio.wait_for(api("GET", MAPS, params={"watch": "true"}), 30)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert (refused.json()["reason"], refused.json()["message"]) == ("ServiceUnavailable", "apiserver is shutting down")
    await api.ok("GET", MAPS)


class WatchAtTheEnd(Watch):
    """A watch whose headers are the last thing that the server sends before it begins to stop."""

    def sent(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.control_plane.begin_shutdown()
        super().sent(message)


@pytest.mark.parametrize("since", [pytest.param("nothing", id="with the state there is"), pytest.param("zero", id="from a revision")])
async def test_a_watch_that_is_not_attached_yet_ends_with_the_server(api: Api, since: str) -> None:
    """A watch that has begun when the others are ended, but is not one of them yet, comes to a clean end by itself."""
    zero = await api.ok("POST", MAPS, config_map("zero"))
    await api.ok("POST", MAPS, config_map("one"))
    revisions = {"nothing": "", "zero": zero["metadata"]["resourceVersion"]}
    async with WatchAtTheEnd(api, MAPS, resourceVersion=revisions[since]) as watch:
        assert watch.started["status"] == 200
        assert await watch.next() is None
