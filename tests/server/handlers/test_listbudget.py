"""Bytes of lists that are held for the clients of one cluster."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from starlette.types import Message

from kcp_py.apimachinery.errors import StatusError
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


def list_scope(accept: str, query: str) -> dict[str, Any]:
    """A request for the config maps of cluster `a`."""
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "https", "path": MAPS.format("a"),
        "raw_path": MAPS.format("a").encode(), "query_string": query.encode(), "state": {},
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
    """What is known to be large has no room beside another, before anything of it is read."""
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
    """What is held for a client that does not read is no more than what is counted: nothing that the answer was made of stays."""
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
