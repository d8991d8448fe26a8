"""What a watch costs while nothing happens, and how it ends with its server. What it tells is tested with the other reads."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from starlette.types import Message

from kcp_py.controlplane import ControlPlane
from kcp_py.storage.sqlite.worker import Worker
from kcp_py.watchcache import ObjectEvent
from tests.server.handlers.conftest import Api, Watch, config_map, options

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
    fanout = api.control_plane.backend.fanout
    for name in ("kept-one", "kept-two"):
        await api.ok("POST", MAPS, config_map(name))
    async with Watch(api, MAPS, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert [await watch.brief() for _ in range(2)] == [("ADDED", "kept-one"), ("ADDED", "kept-two")]
        (watcher,) = fanout._hubs["/registry/core/configmaps/"].by_cluster["a"]
        while watcher._waiter is None or watcher._waiter.done():
            await asyncio.sleep(0)
        fanout._ring._events.clear()
        assert not [event for event in gc.get_objects() if type(event) is ObjectEvent and event.route.name.startswith("kept-")]
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


class HeldReports:
    """Holds back that jobs of SQLite's thread have ended, within `with` and until `release`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ended = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()
        submit = Worker.submit

        async def report_later(job: asyncio.Future[Any]) -> Any:
            outcome = await job
            if not self._released.is_set():
                self.ended.set()
                await self._released.wait()
            return outcome

        def held(worker: Worker, call: Callable[[], Any]) -> asyncio.Future[Any]:
            return asyncio.ensure_future(report_later(submit(worker, call)))

        monkeypatch.setattr(Worker, "submit", held)

    def __enter__(self) -> Self:
        self._released.clear()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def release(self) -> None:
        self._released.set()


async def test_what_a_list_has_seen_can_be_watched_from_before_the_write_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is readable and not answered yet has a revision that GET, lists and watches know, and later events follow."""
    reports = HeldReports(monkeypatch)
    async with (
        ControlPlane(replace(options(tmp_path), storage="sqlite")) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        before = await api.ok("POST", MAPS, config_map("zero"))
        with reports:
            write = asyncio.ensure_future(api.ok("POST", MAPS, config_map("one")))
            await asyncio.wait_for(reports.ended.wait(), 30)
            listed = await api.ok("GET", MAPS)
            revision = listed["metadata"]["resourceVersion"]
            assert [item["metadata"]["name"] for item in listed["items"]] == ["one", "zero"]
            assert int(revision) > int(before["metadata"]["resourceVersion"])
            assert not write.done()
            await api.ok("GET", f"{MAPS}/zero", params={"resourceVersion": revision})
            for match in ("NotOlderThan", "Exact"):
                again = await api.ok("GET", MAPS, params={"resourceVersion": revision, "resourceVersionMatch": match})
                assert again["metadata"]["resourceVersion"] == revision
            async with Watch(api, MAPS, resourceVersion=revision) as watch:
                reports.release()
                await write
                await api.ok("POST", MAPS, config_map("two"))
                assert await watch.brief() == ("ADDED", "two")


async def test_what_was_read_alone_can_be_watched_from_before_the_write_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch from the revision of one object that a GET has returned shows every later change."""
    reports = HeldReports(monkeypatch)
    async with (
        ControlPlane(replace(options(tmp_path), storage="sqlite")) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await api.ok("POST", MAPS, config_map("zero"))
        with reports:
            write = asyncio.ensure_future(api.ok("POST", MAPS, config_map("one")))
            await asyncio.wait_for(reports.ended.wait(), 30)
            revision = (await api.ok("GET", f"{MAPS}/one"))["metadata"]["resourceVersion"]
            assert not write.done()
            async with Watch(api, MAPS, resourceVersion=revision) as watch:
                reports.release()
                await write
                await api.ok("POST", MAPS, config_map("two"))
                assert await watch.brief() == ("ADDED", "two")
