"""Bytes of lists that are held for the clients of one cluster."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc
from typing import Any

import pytest
from starlette.types import Message

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rest import listing
from kcp_py.server.handlers.listbudget import ListBudget
from tests.server.handlers.conftest import ADMIN, Api, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/{}/api/v1/namespaces/default/configmaps"
FORMS = {
    "spliced": ("application/json", ""),
    "selected": ("application/json", "fieldSelector=metadata.name!=x"),
    "yaml": ("application/yaml", ""),
    "table": ("application/json;as=Table;v=v1;g=meta.k8s.io", "includeObject=Object"),
}


def list_scope(accept: str, query: str, path: str = MAPS.format("a"), method: str = "GET") -> dict[str, Any]:
    """A request for the config maps of cluster `a`, or another."""
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "https", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "state": {},
        "headers": [(b"authorization", ADMIN.encode()), (b"accept", accept.encode())],
    }  # fmt: skip


def test_what_is_held_is_counted_by_cluster_and_given_back() -> None:
    """Over the limit there is no room for another list of the cluster, whatever others hold; a list that is on its way is not cut."""
    budget = ListBudget(10_000_000)
    with budget.share("a", "/maps/") as first:
        first.hold(9_500_000)
        with pytest.raises(StatusError) as refused, budget.share("a", "/maps/"):
            pass
        assert (refused.value.code, refused.value.retry_after_seconds) == (429, 1)
        with budget.share("b", "/maps/") as other:
            other.hold(10_000_000)
            with pytest.raises(StatusError):
                other.hold(10_000_001)
            other.hold(20_000_000, started=True)
            other.hold(15_000_000)
        first.hold(100)
        with budget.share("a", "/maps/"):
            assert budget.held == {"a": 1_048_676}
    assert budget.held == {}


def test_a_list_is_taken_for_as_large_as_the_last_one() -> None:
    """A list that is expected to be large waits while another one runs, before any of it is read."""
    budget = ListBudget(10_000_000)
    with budget.share("a", "/maps/") as share:
        share.hold(6_000_000)
        share.hold(5)
    with budget.share("a", "/maps/"):
        assert budget.held == {"a": 6_000_000}
        with pytest.raises(StatusError), budget.share("a", "/maps/"):
            pass
        with budget.share("a", "/secrets/"):
            pass


async def test_first_pages_of_a_cluster_are_read_a_few_at_a_time() -> None:
    """A crowd whose lists have no known size is refused before all of them were read; another cluster does not wait for it."""
    budget = ListBudget(20_000_000)
    reading, most, refusals = 0, 0, 0
    go_on = asyncio.Event()

    async def list_once() -> None:
        nonlocal reading, most, refusals
        try:
            with budget.share("a", "/maps/") as share:
                await share.begin()
                reading += 1
                most = max(most, reading)
                await go_on.wait()
                reading -= 1
                share.hold(10_000_000)
                await asyncio.sleep(0)
        except StatusError:
            refusals += 1

    crowd = [asyncio.ensure_future(list_once()) for _ in range(19)]
    while reading < 8:
        await asyncio.sleep(0)
    with budget.share("b", "/maps/") as other:
        # The turn ends with the list, where nothing was read.
        for _ in range(9):
            with budget.share("b", "/maps/") as one:
                await one.begin()
        await other.begin()
        assert reading == 8
    go_on.set()
    await asyncio.gather(*crowd)
    assert most == 8
    assert refusals > 0
    assert budget.held == {}


@pytest.mark.parametrize(("accept", "query"), FORMS.values(), ids=FORMS)
async def test_clients_that_do_not_read_keep_no_other_cluster_from_reading(api: Api, accept: str, query: str) -> None:
    """The lists that they were given are held until they leave; more of them are 429 with a time to come back after."""
    backend = api.control_plane.backend
    for cluster in "ab":
        await api.ok("POST", MAPS.format(cluster), config_map("large", {"a": "x" * 400_000}))
    assert (await api("GET", f"{MAPS.format('a')}?{query}", headers={"Accept": accept})).status_code == 200
    backend.lists.limit = 1_000_000
    left = asyncio.Event()
    holding = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal holding
        if message["type"] == "http.response.body":
            holding += 1
            await left.wait()

    slow = [asyncio.ensure_future(api.control_plane.app(list_scope(accept, query), receive, send)) for _ in range(2)]
    async with asyncio.timeout(30):
        while holding < len(slow):
            await asyncio.sleep(0)
    refused = await api("GET", f"{MAPS.format('a')}?{query}", headers={"Accept": accept})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert (await api("GET", MAPS.format("b"))).status_code == 200
    assert (await api("GET", f"{MAPS.format('a')}/large")).status_code == 200
    left.set()
    await asyncio.gather(*slow)
    assert backend.lists.held == {}
    assert (await api("GET", f"{MAPS.format('a')}?{query}", headers={"Accept": accept})).status_code == 200


@pytest.mark.parametrize(("accept", "query"), FORMS.values(), ids=FORMS)
async def test_a_list_that_waits_for_its_client_is_in_memory_once(api: Api, accept: str, query: str) -> None:
    """A client that does not read holds no more memory than the counted bytes: the parts of the answer are freed."""
    for number in range(8):
        await api.ok("POST", MAPS.format("a"), config_map(f"large-{number}", {"a": "x" * 500_000}))
    for _ in range(2):
        # Caches and modules are filled.
        assert (await api("GET", f"{MAPS.format('a')}?{query}", headers={"Accept": accept})).status_code == 200
    left, holding = asyncio.Event(), asyncio.Event()
    size = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal size
        if message["type"] == "http.response.start":
            size = int(dict(message["headers"])[b"content-length"])
        else:
            holding.set()
            await left.wait()

    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        slow = asyncio.ensure_future(api.control_plane.app(list_scope(accept, query), receive, send))
        await holding.wait()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    left.set()
    await slow
    assert size > 4_000_000
    assert held < 1.25 * size


LONG = {
    **{name: (*form, MAPS.format("a")) for name, form in FORMS.items() if name != "yaml"},
    "wildcard": ("application/json", "", "/clusters/*/api/v1/configmaps"),
    "metadata": ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "", MAPS.format("a")),
    "nothing as yaml": ("application/yaml", "labelSelector=a%3Db", MAPS.format("a")),
}


@pytest.mark.parametrize(("accept", "query", "path"), LONG.values(), ids=LONG)
async def test_a_long_list_is_never_in_memory_as_a_whole(
    api: Api, monkeypatch: pytest.MonkeyPatch, accept: str, query: str, path: str
) -> None:
    """It is read in pages of so many bytes, and has all objects as of one revision, although one is deleted meanwhile."""
    monkeypatch.setattr(listing, "_WHOLE_LIST_BYTES", 1_000_000)
    for number in range(40):
        await api.ok("POST", MAPS.format("a"), config_map(f"large-{number:02}", {"a": f"{number:02}" * 250_000}))
    names: set[bytes] = set()
    deleted = tracing = False

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal deleted
        if message["type"] == "http.response.body":
            names.update(re.findall(rb'"name":"(large-\d+)"', message["body"]))
            if tracing and message["body"] and not deleted:
                deleted = True
                await api.ok("DELETE", f"{MAPS.format('a')}/large-39")

    # Modules and caches are filled.
    await api.control_plane.app(list_scope(accept, f"{query}&limit=2", path), receive, send)
    names.clear()
    gc.collect()
    tracing = True
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await api.control_plane.app(list_scope(accept, query, path), receive, send)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(names) == (0 if "labelSelector" in query else 40)
    assert most < 12_000_000


async def test_a_collection_that_is_deleted_is_not_in_memory_decoded(api: Api) -> None:
    """Its deletion ends with 429 where the answer would take more than lists may; another one deletes the rest."""
    for number in range(6):
        await api.ok("POST", MAPS.format("a"), config_map(f"large-{number}", {"a": "x" * 400_000}))
    api.control_plane.backend.lists.limit = 1_500_000
    refused = await api("DELETE", MAPS.format("a"))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert api.control_plane.backend.lists.held == {}
    left = [item["metadata"]["name"] for item in (await api.ok("GET", MAPS.format("a"), params={"limit": "3"}))["items"]]
    assert left == ["large-4", "large-5"]
    deleted = await api.ok("DELETE", MAPS.format("a"))
    assert [item["metadata"]["name"] for item in deleted["items"]][:2] == left
    assert (await api.ok("GET", MAPS.format("a")))["items"] == []


async def test_a_page_of_selected_large_objects_ends_early(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit is not reached where the objects that were selected take too much; the list goes on behind them."""
    monkeypatch.setattr(listing, "LARGEST_PAGE_BYTES", 1_000_000)
    for number in range(7):
        await api.ok("POST", MAPS.format("a"), config_map(f"large-{number}", {"a": "x" * 400_000}))
    params = {"limit": "500", "fieldSelector": "metadata.name!=large-1"}
    pages: list[list[str]] = []
    while True:
        page = await api.ok("GET", MAPS.format("a"), params=params)
        pages.append([item["metadata"]["name"] for item in page["items"]])
        if not page["metadata"].get("continue"):
            break
        params["continue"] = page["metadata"]["continue"]
    assert pages == [["large-0", "large-2", "large-3"], ["large-4", "large-5", "large-6"]]
