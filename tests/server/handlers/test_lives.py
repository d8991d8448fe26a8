"""A request belongs to the cluster that was there when it came, and not to another one that gets its name meanwhile.

The cluster is deleted and made again at every point at which a request waits for the store, by another server on the same store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Compare, Delete, KeyValue, Operation, Put, RangeResult
from kcp_py.storage.keys import route_of
from kcp_py.storage.memory import MemoryStorage
from tests.server.handlers.conftest import Api, Watch, config_map, established, instance, make_crd, options

pytestmark = pytest.mark.anyio

ROOT = "/registry"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}
MOST_CALLS = 40
"""More than any request of these tests makes."""

Step = Callable[[], Awaitable[None]]

_counted: ContextVar[bool] = ContextVar("counted", default=False)


class InterruptedStorage(MemoryStorage):
    """A store in which something happens at one of the calls of a request."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        self._step: Step | None = None

    def interrupt(self, call: int, step: Step) -> None:
        """Have something happen at the given call of those that come: behind a read and before its answer, or before a write."""
        self._left, self._step = call, step

    @property
    def interrupted(self) -> bool:
        return self._step is None

    async def _called(self) -> None:
        if _counted.get() and self._step is not None:
            self._left -= 1
            if not self._left:
                step, self._step = self._step, None
                await step()

    async def get(self, key: str) -> KeyValue | None:
        found = await super().get(key)
        await self._called()
        return found

    async def range(self, prefix: str, **more: Any) -> RangeResult:
        found = await super().range(prefix, **more)
        await self._called()
        return found

    async def revision(self) -> int:
        found = await super().revision()
        await self._called()
        return found

    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        await self._called()
        return await super().transact(compares, operations)


class Server:
    """A control plane, and another server on its store."""

    def __init__(self, api: Api, storage: InterruptedStorage) -> None:
        self.api = api
        self.storage = storage

    async def make(self, cluster: str) -> str:
        """A cluster with two objects of the first life. Returns the revision of the second one."""
        await self.api.ok("POST", f"/clusters/{cluster}{MAPS}", config_map("game", {"life": "first"}))
        made = await self.api.ok("POST", f"/clusters/{cluster}{MAPS}", config_map("more", {"life": "first"}))
        revision: str = made["metadata"]["resourceVersion"]
        return revision

    async def made_again(self, cluster: str, *, told: bool) -> None:
        """Delete the cluster and make it again, as another server would.

        Args:
            cluster: which.
            told: wait until the feed has brought it.
        """
        clusters = self.api.control_plane.backend.clusters
        cluster_key = clusters.key(Name(cluster))
        items = [item for item in (await self.storage.range(f"{ROOT}/")).items if _cluster_of(item.key) == cluster]
        await self.storage.transact([], [Delete(item.key) for item in items if item.key != cluster_key])
        await self.storage.transact([], [Delete(cluster_key)])
        await self.storage.transact([], clusters.uncreated(Name(cluster)).create_with)
        again = [Put(item.key, item.value.replace(b'"first"', b'"second"')) for item in items if item.key != cluster_key]
        revision = await self.storage.transact([], again)
        if told:
            await self.api.control_plane.backend.fanout.reached(revision)

    async def interrupted_or_waiting(self, prefix: str, cluster: str) -> None:
        """Wait until the request was interrupted, or a watch has sent all that there is."""
        while not self.storage.interrupted:
            hub = self.api.control_plane.backend.fanout._hubs.get(prefix)
            if hub is not None and any(watcher._waiter is not None for watcher in hub.by_cluster.get(cluster, ())):
                return
            await asyncio.sleep(0)

    async def stored(self, cluster: str) -> dict[str, bytes]:
        items = (await self.storage.range(f"{ROOT}/")).items
        return {item.key: item.value for item in items if _cluster_of(item.key) == cluster and "/logicalclusters/" not in item.key}


def _cluster_of(key: str) -> str:
    route = route_of(key, ROOT)
    return route.cluster if route is not None else ""


@asynccontextmanager
async def running(tmp_path: Path) -> AsyncIterator[Server]:
    storage = InterruptedStorage()
    async with ControlPlane(options(tmp_path, controllers=("definitions",)), storage=storage) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Server(Api(client, control_plane), storage)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(tmp_path) as opened:
        yield opened


READS = [
    pytest.param(f"{MAPS}/game", {}, id="get"),
    pytest.param(MAPS, {}, id="list"),
    pytest.param(MAPS, {"limit": "1"}, id="page"),
    pytest.param(MAPS, {"labelSelector": "!x"}, id="selected"),
    pytest.param(MAPS, {"fieldSelector": "metadata.name=game"}, id="list of one"),
    pytest.param("/api/v1/namespaces", {}, id="default objects"),
]


@pytest.mark.parametrize(("path", "params"), READS)
async def test_a_read_shows_one_life(server: Server, path: str, params: dict[str, str]) -> None:
    """An answer belongs to the cluster of the request, or the client has to retry."""
    for call in count(1):
        assert call < MOST_CALLS
        cluster = f"r{call}"
        await server.make(cluster)
        uid = (await server.api.ok("GET", f"/clusters/{cluster}/api/v1/namespaces/default"))["metadata"]["uid"]
        server.storage.interrupt(call, lambda cluster=cluster: server.made_again(cluster, told=True))  # type: ignore[misc]
        _counted.set(True)
        answer = await server.api("GET", f"/clusters/{cluster}{path}", params=params)
        _counted.set(False)
        interrupted = server.storage.interrupted
        assert '"second"' not in answer.text
        assert answer.status_code in ({200, 503} if interrupted else {200})
        if path.endswith("namespaces") and answer.status_code == 200:
            assert uid in answer.text
        if not interrupted:
            assert call > 1
            return


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("path", ["/apis/example.com/v1", "/apis/example.com", "/openapi/v2", "/openapi/v3/apis/example.com/v1"])
async def test_a_document_describes_one_life(server: Server, path: str, *, told: bool) -> None:
    """Discovery and OpenAPI of a cluster name nothing of the next one of the name."""
    crd = make_crd()
    crd["spec"]["names"]["categories"] = ["first"]
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "first"
    for call in count(1):
        assert call < MOST_CALLS
        cluster = f"p{call}"
        await server.api.ok("POST", f"/clusters/{cluster}{CRDS}", crd)
        await established(server.api, cluster)
        # Nothing of the cluster is cached.
        server.api.control_plane.backend.access.budget.evict(Name(cluster))
        server.storage.interrupt(call, lambda cluster=cluster: server.made_again(cluster, told=told))  # type: ignore[misc]
        _counted.set(True)
        answer = await server.api("GET", f"/clusters/{cluster}{path}")
        _counted.set(False)
        interrupted = server.storage.interrupted
        assert '"second"' not in answer.text
        assert answer.status_code in ({200, 503} if interrupted else {200})
        if not interrupted:
            assert call > 1
            return


WRITES = [
    pytest.param("POST", MAPS, config_map("fresh", {"life": "first"}), {}, id="create"),
    pytest.param("POST", f"{MAPS}?dryRun=All", config_map("game", {"life": "first"}), {}, id="dry run of a create"),
    pytest.param("PUT", f"{MAPS}/game", config_map("game", {"life": "changed"}), {}, id="update"),
    pytest.param("PATCH", f"{MAPS}/game", {"data": {"life": "changed"}}, MERGE, id="patch"),
    pytest.param("PATCH", f"{MAPS}/game", {}, MERGE, id="patch without a change"),
    pytest.param("PATCH", f"{MAPS}/game?dryRun=All", {"data": {"more": "x"}}, MERGE, id="dry run of a patch"),
    pytest.param("DELETE", f"{MAPS}/game", None, {}, id="delete"),
    pytest.param("DELETE", f"{MAPS}/game?dryRun=All", None, {}, id="dry run of a delete"),
    pytest.param("DELETE", f"{MAPS}/game", {"propagationPolicy": "Foreground"}, {}, id="mark for deletion"),
    pytest.param("DELETE", MAPS, None, {}, id="delete a collection"),
]


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize(("method", "path", "body", "headers"), WRITES)
async def test_a_write_changes_one_life(server: Server, method: str, path: str, body: Any, headers: dict[str, str], *, told: bool) -> None:
    """A write that began in one cluster changes nothing in the next one of the name, and shows nothing of it."""
    for call in count(1):
        assert call < MOST_CALLS
        cluster = f"w{call}"
        await server.make(cluster)
        after: dict[str, bytes] = {}

        async def swap(cluster: str = cluster, after: dict[str, bytes] = after) -> None:
            await server.made_again(cluster, told=told)
            after.update(await server.stored(cluster))

        server.storage.interrupt(call, swap)
        _counted.set(True)
        answer = await server.api(method, f"/clusters/{cluster}{path}", body, headers=headers)
        _counted.set(False)
        if not server.storage.interrupted:
            assert answer.status_code < 300 or "dryRun" in path
            assert call > 1
            return
        assert '"second"' not in answer.text
        assert await server.stored(cluster) == after


WATCHES = [
    pytest.param({}, id="with the state there is"),
    pytest.param(
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}, id="with initial events"
    ),
    pytest.param({"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}, id="from now on"),
    pytest.param({"resourceVersion": "known"}, id="from a revision"),
]


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("params", WATCHES)
async def test_a_watch_shows_one_life(server: Server, params: dict[str, str], *, told: bool) -> None:
    """Wherever it stands, the watch ends with its cluster and delivers nothing of the next one of the name."""
    for call in count(1):
        assert call < MOST_CALLS
        cluster = f"a{call}"
        known = await server.make(cluster)
        asked = {name: known if value == "known" else value for name, value in params.items()}
        server.storage.interrupt(call, lambda cluster=cluster: server.made_again(cluster, told=told))  # type: ignore[misc]
        _counted.set(True)
        watch = Watch(server.api, f"/clusters/{cluster}{MAPS}", None, **asked)
        async with watch:
            _counted.set(False)
            await server.interrupted_or_waiting("/registry/core/configmaps/", cluster)
            interrupted = server.storage.interrupted
            if not interrupted:
                await server.made_again(cluster, told=told)
            assert watch.started["status"] in ({200, 503} if interrupted else {200})
            if watch.started["status"] == 200:
                while (event := await watch.next()) is not None:
                    assert "second" not in str(event)
        if not interrupted:
            assert call > 1
            return


async def test_a_cluster_that_is_gone_has_no_history(server: Server) -> None:
    """A watch of the past of an unused name shows nothing of the cluster that had the name; it shows later objects."""
    known = await server.make("gone")
    before = str(int(known) - 2)
    clusters = server.api.control_plane.backend.clusters
    items = [item.key for item in (await server.storage.range(f"{ROOT}/")).items if _cluster_of(item.key) == "gone"]
    last = await server.storage.transact([], [Delete(key) for key in items])
    await server.api.control_plane.backend.fanout.reached(last)
    path = f"/clusters/gone{MAPS}"
    answer = await server.api("GET", path, params={"resourceVersion": known, "resourceVersionMatch": "Exact"})
    assert (answer.status_code, "first" in answer.text) == (410, False)
    assert (await server.api.ok("GET", path, params={"resourceVersion": str(last), "resourceVersionMatch": "Exact"}))["items"] == []
    async with Watch(server.api, path, resourceVersion=known) as watch:
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert await watch.next() is None
    async with Watch(server.api, path, resourceVersion=before) as early, Watch(server.api, path, resourceVersion=str(last)) as late:
        await server.api.ok("POST", path, config_map("new"))
        assert await early.brief() == ("ADDED", "new")
        assert await late.brief() == ("ADDED", "new")
    assert await clusters.state(Name("gone")) is not None


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_a_watch_ends_with_its_definition(server: Server, scope: str, *, told: bool) -> None:
    """A definition that is made again, with another scope, is another resource for a watch that is still sending initial events."""
    crd = make_crd()
    path = WIDGETS if scope == "Namespaced" else "/apis/example.com/v1/widgets"
    for call in count(1):
        assert call < MOST_CALLS
        cluster = f"d{call}"
        await server.api.ok("POST", f"/clusters/{cluster}{CRDS}", crd)
        await established(server.api, cluster)
        await server.api.ok("POST", f"/clusters/{cluster}{WIDGETS}", instance("one", spec={"life": "first"}))

        async def swap(cluster: str = cluster) -> None:
            items = [item for item in (await server.storage.range(f"{ROOT}/")).items if _cluster_of(item.key) == cluster]
            ours = [item for item in items if "widgets" in item.key]
            await server.storage.transact([], [Delete(item.key) for item in ours])
            again: list[Operation] = []
            for item in ours:
                obj = orjson.loads(item.value)
                if obj["kind"] == "CustomResourceDefinition":
                    obj["spec"]["scope"] = scope
                    obj["metadata"]["uid"] = "2"
                key = item.key if scope == "Namespaced" or obj["kind"] != "Widget" else item.key.replace("/default/", "/")
                again.append(Put(key, orjson.dumps(obj).replace(b'"first"', b'"second"')))
            revision = await server.storage.transact([], again)
            if told:
                await server.api.control_plane.backend.fanout.reached(revision)

        server.storage.interrupt(call, swap)
        _counted.set(True)
        watch = Watch(server.api, f"/clusters/{cluster}{WIDGETS}")
        async with watch:
            _counted.set(False)
            await server.interrupted_or_waiting("/registry/example.com/widgets/customresources/", cluster)
            interrupted = server.storage.interrupted
            if not interrupted:
                await swap()
            seen: list[str] = []
            if watch.started["status"] == 200:
                # A watch that had not begun when the definition changed may be one of the new definition.
                while not any("second" in text for text in seen) and (event := await watch.next()) is not None:
                    seen.append(str(event))
            assert not ("first" in str(seen[:1]) and "second" in str(seen)), seen
        assert (await server.api.ok("GET", f"/clusters/{cluster}{path}"))["items"]
        if not interrupted:
            return
