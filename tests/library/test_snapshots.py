"""`SnapshotStorage`: lists, pages and watches of a resource from one function, and what becomes of its failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from kcp_py import ComputedResource, ControlPlane, GroupVersionResource, Name, ReadRequest, SnapshotStorage, errors, parse_name
from tests.server.handlers.conftest import Api, Watch, config_map, options

pytestmark = pytest.mark.anyio

PRICES = "/clusters/a/apis/example.com/v1/prices"
RESOURCE = GroupVersionResource("example.com", "v1", "prices")


class Prices(SnapshotStorage):
    """Prices that a test sets."""

    interval = 60.0
    freshness = 0.0
    history = 5

    def __init__(self) -> None:
        self.prices: dict[str, dict[str, int]] = {}
        self.reads = 0
        self.failure: Exception | None = None

    async def items(self, cluster: Name) -> Sequence[dict[str, Any]]:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        prices = self.prices.get(cluster, {})
        return [{"metadata": {"name": name, "labels": {"cheap": str(price < 10)}}, "price": price} for name, price in prices.items()]

    def set(self, cluster: str, **prices: int) -> None:
        """Replace the prices of a cluster, and notify."""
        self.prices[cluster] = prices
        self.changed(parse_name(cluster))


@pytest.fixture
def prices() -> Prices:
    """The storage of the resource."""
    return Prices()


@asynccontextmanager
async def serving(root: Path, rest: SnapshotStorage) -> AsyncIterator[Api]:
    """A control plane with the resource, and the clusters `a` and `b`."""
    described = ComputedResource(group="example.com", version="v1", resource="prices", kind="Price", namespaced=False, rest=rest)
    control_plane = ControlPlane(options(root), apis=[described])
    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client:
        one = Api(client, control_plane)
        for cluster in ("a", "b"):
            await one.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
        yield one


@pytest.fixture
async def api(tmp_path: Path, prices: Prices) -> AsyncIterator[Api]:
    """See `serving`."""
    async with serving(tmp_path, prices) as one:
        yield one


async def test_objects_keep_versions_until_they_change(api: Api, prices: Prices) -> None:
    """A change raises the version of its object alone; uids stay; each cluster has its own."""
    prices.set("a", tea=3, rum=20)
    before = {one["metadata"]["name"]: one["metadata"] for one in (await api.ok("GET", PRICES))["items"]}
    prices.set("a", tea=4, rum=20)
    after = {one["metadata"]["name"]: one["metadata"] for one in (await api.ok("GET", PRICES))["items"]}
    assert before["rum"] == after["rum"]
    assert before["tea"]["uid"] == after["tea"]["uid"]
    assert int(before["tea"]["resourceVersion"]) < int(after["tea"]["resourceVersion"])
    assert (await api.ok("GET", f"{PRICES}/tea"))["price"] == 4
    assert (await api.ok("GET", PRICES.replace("/a/", "/b/")))["items"] == []
    await api.fails(404, "GET", f"{PRICES}/gin")


async def test_requests_over_all_clusters_leave_nothing_in_objects(api: Api, prices: Prices) -> None:
    """The objects that are kept are answered to requests for one cluster as before."""
    prices.set("a", tea=5)
    before = await api.ok("GET", f"{PRICES}/tea")
    (shown,) = (await api.ok("GET", "/clusters/*/apis/example.com/v1/prices"))["items"]
    assert shown["metadata"]["clusterName"] == "a"
    assert await api.ok("GET", f"{PRICES}/tea") == before


async def test_pages_are_of_one_state(api: Api, prices: Prices) -> None:
    """Objects that come and go between two pages are not seen. A token of another request, and an unknown one, are refused."""
    prices.set("a", **{f"p{number}": number for number in range(5)})
    first = await api.ok("GET", f"{PRICES}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    prices.set("a")
    token = first["metadata"]["continue"]
    second = await api.ok("GET", f"{PRICES}?limit=2&continue={token}")
    assert second == await api.ok("GET", f"{PRICES}?limit=2&continue={token}")
    last = await api.ok("GET", f"{PRICES}?limit=2&continue={second['metadata']['continue']}")
    names = [one["metadata"]["name"] for page in (first, second, last) for one in page["items"]]
    assert (names, "continue" in last["metadata"]) == ([f"p{number}" for number in range(5)], False)
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {first["metadata"]["resourceVersion"]}
    for other in (PRICES.replace("/a/", "/b/"), PRICES + "?labelSelector=x"):
        joined = "&" if "?" in other else "?"
        assert (await api.fails(410, "GET", f"{other}{joined}limit=2&continue={token}"))["reason"] == "Expired"
    await api.fails(410, "GET", f"{PRICES}?limit=2&continue=2.unknown")
    await api.fails(400, "GET", f"{PRICES}?limit=2&continue=unknown")


async def test_watches_resume_behind_a_list(api: Api, prices: Prices) -> None:
    """The changes since the list, and nothing twice; selectors see objects come into and leave their selection."""
    prices.set("a", tea=3, rum=20)
    version = (await api.ok("GET", PRICES))["metadata"]["resourceVersion"]
    prices.set("a", tea=30, gin=15)
    async with asyncio.timeout(30):
        async with Watch(api, PRICES, resourceVersion=version) as watch:
            assert sorted([await watch.brief() for _ in range(3)]) == [("ADDED", "gin"), ("DELETED", "rum"), ("MODIFIED", "tea")]
            prices.set("a", tea=30)
            assert await watch.brief() == ("DELETED", "gin")
        async with Watch(api, PRICES, resourceVersion=version, labelSelector="cheap=True") as watch:
            assert await watch.brief() == ("DELETED", "tea")
        async with Watch(api, PRICES) as watch:
            assert await watch.brief() == ("ADDED", "tea")


async def test_initial_events_end_with_a_bookmark(api: Api, prices: Prices) -> None:
    """A streamed list, as clients of Kubernetes 1.34 and later ask for it."""
    prices.set("a", tea=3)
    streamed: dict[str, Any] = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with asyncio.timeout(30), Watch(api, PRICES, **streamed) as watch:
        assert await watch.brief() == ("ADDED", "tea")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})


async def test_old_and_foreign_versions_are_expired(api: Api, prices: Prices) -> None:
    """The history is bounded, and versions of the future are those of another server."""
    prices.set("a", tea=0)
    old = (await api.ok("GET", PRICES))["metadata"]["resourceVersion"]
    for price in range(1, 8):
        prices.set("a", tea=price)
        await api.ok("GET", PRICES)
    for version in (old, "1", str(10**18)):
        async with asyncio.timeout(30), Watch(api, PRICES, resourceVersion=version) as watch:
            event = await watch.next()
            assert event is not None
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_all_clusters_are_watched_from_one_list(api: Api, prices: Prices) -> None:
    """A watch over all clusters goes on behind the list over all clusters."""
    prices.set("a", tea=3)
    prices.set("b", rum=3)
    everywhere = PRICES.replace("/a/", "/*/")
    listed = await api.ok("GET", everywhere)
    assert len(listed["items"]) == 2
    async with asyncio.timeout(30), Watch(api, everywhere, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        prices.set("b", rum=4)
        assert await watch.brief() == ("MODIFIED", "rum")


class Meddled(Prices):
    """Prices that change while they are read. Other clusters are read meanwhile, as their watches do."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.api: Api | None = None
        self.reading: list[str] = []

    def meddle(self) -> None:
        """Change one price of one cluster."""
        found = self.prices.setdefault(self.random.choice("abcd"), {})
        if self.random.random() < 0.3 and found:
            del found[self.random.choice(sorted(found))]
        else:
            found[self.random.choice(["tea", "rum", "gin"])] = self.random.randrange(20)

    async def items(self, cluster: Name) -> Sequence[dict[str, Any]]:
        before = await super().items(cluster)
        if self.random.random() < 0.5 and self.api is not None:
            self.meddle()
            self.reading.append(cluster)
            if others := [one for one in "abcd" if one not in self.reading]:
                await self.api.ok("GET", PRICES.replace("/a/", f"/{self.random.choice(others)}/"))
            self.reading.pop()
        return before


@pytest.mark.parametrize("seed", range(4))
async def test_a_list_and_a_watch_behind_it_lose_nothing(seed: int, tmp_path: Path) -> None:
    """Over all clusters, whatever changes meanwhile: in clusters that were never read, or read before, or after."""
    random = Random(seed)
    everywhere = PRICES.replace("/a/", "/*/")
    for _ in range(12):
        prices = Meddled(random)
        prices.history = 1000
        async with serving(tmp_path, prices) as api, asyncio.timeout(60):
            for cluster in "cd":
                await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
            for _ in range(random.randrange(8)):
                prices.meddle()
            if random.random() < 0.5:
                await api.ok("GET", everywhere)
            prices.api = api
            listed = await api.ok("GET", everywhere)
            prices.api = None
            known = {place(one): one["price"] for one in listed["items"]}
            for _ in range(random.randrange(4)):
                prices.meddle()
            prices.changed()
            expected = {(cluster, name): price for cluster, some in prices.prices.items() for name, price in some.items()}
            async with Watch(api, everywhere, resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
                while known != expected:
                    event = await watch.next()
                    assert event is not None
                    assert event["type"] != "ERROR", event
                    if event["type"] == "DELETED":
                        known.pop(place(event["object"]), None)
                    else:
                        known[place(event["object"])] = event["object"]["price"]


def place(obj: dict[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["annotations"]["kcp.io/cluster"], obj["metadata"]["name"]


async def test_a_list_of_quiet_clusters_is_followed_by_nothing(api: Api, prices: Prices) -> None:
    """Clusters that are read for the first time by a list over all clusters: the watch tells none of their objects again."""
    prices.set("a", tea=3)
    everywhere = PRICES.replace("/a/", "/*/")
    await api.ok("GET", everywhere)
    prices.set("a", tea=4)
    prices.set("b", rum=3)
    version = (await api.ok("GET", everywhere))["metadata"]["resourceVersion"]
    async with asyncio.timeout(30), Watch(api, everywhere, resourceVersion=version) as watch:
        prices.set("b", gin=5)
        assert sorted([await watch.brief(), await watch.brief()]) == [("ADDED", "gin"), ("DELETED", "rum")]


async def test_a_slow_client_of_more_changes_than_are_kept_lists_again(api: Api, prices: Prices) -> None:
    """It gets 410 instead of the changes that are left."""
    prices.set("a", tea=0, rum=0)
    request = ReadRequest(*await read_request(api))
    events = prices.watch(request)
    assert (await anext(events)).type == "ADDED"
    for price in range(1, 12):
        prices.set("a", tea=price, rum=0)
        await api.ok("GET", PRICES)
    assert (await anext(events)).obj["metadata"]["name"] == "tea"
    with pytest.raises(errors.StatusError, match="too old"):
        await anext(events)


async def read_request(api: Api) -> tuple[Any, Any]:
    """Context and target of a list of prices, as the server makes them."""
    seen: list[tuple[Any, Any]] = []
    rest: Any = api.control_plane.apis[0]
    told = rest.rest.list

    async def note(request: ReadRequest) -> Any:
        seen.append((request.context, request.target))
        return await told(request)

    rest.rest.list = note
    await api.ok("GET", PRICES)
    del rest.rest.list
    return seen[0]


async def test_failures_are_answers(api: Api, prices: Prices) -> None:
    """A refusal is the answer, anything else is a 500 without details; another read works again."""
    prices.set("a", tea=3)
    prices.failure = errors.service_unavailable("the source is closed")
    assert "closed" in (await api.fails(503, "GET", PRICES))["message"]
    prices.failure = RuntimeError("secret")
    assert "secret" not in (await api.fails(500, "GET", PRICES))["message"]
    prices.failure = None
    assert len((await api.ok("GET", PRICES))["items"]) == 1


async def test_one_read_serves_many(api: Api, prices: Prices) -> None:
    """Watches of one cluster share the reads, and fresh objects are not read again."""
    prices.set("a", tea=3)
    prices.freshness = 60.0
    await asyncio.gather(*(api.ok("GET", PRICES) for _ in range(10)))
    assert prices.reads == 1
    client = api.control_plane.client
    page = await client.list(parse_name("a"), RESOURCE, limit=1)
    assert (page.items[0]["price"], page.continue_token) == (3, "")
