"""A control plane opens, stops being ready, closes and opens again, and gives back what deleted clusters cost."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.options import Options
from kcp_py.request.sight import EVERY_CLUSTER
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import Delete, UnavailableError, WatchBatch
from kcp_py.storage.memory import MemoryStorage
from kcp_py.watchcache import WatchEndedError, Watcher
from tests.server.handlers.conftest import Api, config_map, established, instance, make_crd, options

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"


@asynccontextmanager
async def running(control_plane: ControlPlane) -> AsyncIterator[Api]:
    async with control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def eventually_gone(api: Api, path: str) -> None:
    """Wait, without a clock, until a read of the path fails."""
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code == 200:
            await asyncio.sleep(0)


async def test_begin_shutdown_ends_watches_and_readiness(tmp_path: Path) -> None:
    """Readiness fails and watches end cleanly, while other requests are still answered."""
    async with running(ControlPlane(options(tmp_path))) as api:
        assert (await api("GET", "/readyz")).status_code == 200
        hubs = api.control_plane.backend.fanout._hubs
        await api.ok("POST", MAPS, config_map("zero"))
        watch = asyncio.ensure_future(api("GET", MAPS, params={"watch": "1"}))
        while "a" not in getattr(hubs.get("/registry/core/configmaps/"), "by_cluster", ()):
            await asyncio.sleep(0)
        api.control_plane.begin_shutdown()
        ended = await asyncio.wait_for(watch, 60)
        assert ended.status_code == 200
        assert b"ERROR" not in ended.content
        assert (await api("GET", "/readyz")).status_code == 500
        assert (await api("GET", "/livez")).status_code == 200
        await api.ok("POST", MAPS, config_map("one"))


async def test_a_sqlite_file_is_read_by_the_next_control_plane(tmp_path: Path) -> None:
    """Objects, clusters, CRDs, revisions and the key of continue tokens outlive the process."""
    options(tmp_path)
    settings = Options(root_directory=tmp_path, storage="sqlite")
    async with running(ControlPlane(settings)) as api:
        for name in ("one", "two"):
            await api.ok("POST", MAPS, config_map(name))
        await api.ok("POST", f"/clusters/a{CRDS}", make_crd())
        await established(api, "a")
        widget = await api.ok("POST", "/clusters/a/apis/example.com/v1/namespaces/default/widgets", instance("w"))
        page = await api.ok("GET", MAPS, params={"limit": "1"})
    async with running(ControlPlane(settings)) as api:
        rest = await api.ok("GET", MAPS, params={"limit": "1", "continue": page["metadata"]["continue"]})
        assert [item["metadata"]["name"] for item in (*page["items"], *rest["items"])] == ["one", "two"]
        assert await api.ok("GET", "/clusters/a/apis/example.com/v1/namespaces/default/widgets/w") == widget


async def test_deleted_clusters_leave_nothing_behind(tmp_path: Path) -> None:
    """Tables, scopes, hubs of the feed, compiled definitions and keys are as many as before the clusters came."""
    storage = MemoryStorage()
    async with running(ControlPlane(options(tmp_path), storage=storage)) as api:
        backend = api.control_plane.backend

        async def cycle(count: int) -> None:
            for number in range(count):
                base = f"/clusters/gone-{number}"
                await api.ok("POST", f"{base}{CRDS}", make_crd(group=f"g{number}.example.com"))
                await api.ok("POST", f"{base}/api/v1/namespaces/default/configmaps", config_map("one"))
            for number in range(count):
                await established(api, f"gone-{number}", f"widgets.g{number}.example.com")
                path = f"/clusters/gone-{number}/apis/g{number}.example.com/v1/namespaces/default/widgets"
                await api.ok("POST", path, instance("w", group=f"g{number}.example.com"))
                await api.ok("DELETE", f"/clusters/gone-{number}{CLUSTER}")
            for number in range(count):
                await eventually_gone(api, f"/clusters/gone-{number}{CLUSTER}")
            await backend.fanout.reached(await storage.revision())

        compiled = api.control_plane.tap._crds.compiled

        async def held() -> tuple[int, ...]:
            await api.ok("GET", f"/clusters/root{CRDS}")
            keys = len((await storage.range("/", keys_only=True)).items)
            return len(backend.tables), len(backend.clusters), len(backend.fanout._hubs), len(compiled), keys

        # The first round has the controllers attach themselves.
        await cycle(2)
        before = await held()
        await cycle(100)
        assert await held() == before


class FailingOnce(MemoryStorage):
    """A store whose watches of everything fail when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fail = asyncio.Event()
        self.failed = False

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        changes = super().watch(prefix, start_revision=start_revision)
        try:
            while True:
                if prefix != "/registry/" or self.failed:
                    yield await anext(changes)
                    continue
                batch = asyncio.ensure_future(anext(changes))
                failure = asyncio.ensure_future(self.fail.wait())
                await asyncio.wait([batch, failure], return_when=asyncio.FIRST_COMPLETED)
                failure.cancel()
                if self.fail.is_set():
                    batch.cancel()
                    await asyncio.wait([batch])
                    self.failed = True
                    raise UnavailableError
                yield batch.result()
        finally:
            await changes.aclose()


async def test_what_happened_while_the_feed_was_down_is_not_missed(tmp_path: Path) -> None:
    """Watches end, and caches forget what another server has changed meanwhile."""
    storage = FailingOnce()
    async with running(ControlPlane(options(tmp_path), storage=storage)) as api:
        backend = api.control_plane.backend
        await api.ok("POST", f"/clusters/a{CRDS}", make_crd())
        await established(api, "a")
        assert (await api("GET", "/clusters/a/apis/example.com/v1/widgets")).status_code == 200
        assert "widgets" in {one.resource for one in (await backend.wildcard.union(EVERY_CLUSTER)).resources()}
        await backend.fanout.reached(await storage.revision())
        watcher = backend.fanout.attach("/registry/core/configmaps/", cluster="a", after=backend.fanout.revision)
        storage.fail.set()
        while not storage.failed:
            await asyncio.sleep(0)
        other = await storage.range("/registry/apiextensions.k8s.io/customresourcedefinitions/")
        await storage.transact([], [Delete(other.items[0].key)])
        with pytest.raises(WatchEndedError):
            await asyncio.wait_for(until_it_ends(watcher), 30)
        await backend.fanout.detach(watcher)
        assert (await api("GET", "/clusters/a/apis/example.com/v1/widgets")).status_code == 404
        assert "widgets" not in {one.resource for one in (await backend.wildcard.union(EVERY_CLUSTER)).resources()}
        assert backend.tables.cached(Name("a")) is not None
        assert (await api("GET", "/readyz")).status_code == 200


async def until_it_ends(watcher: Watcher) -> None:
    while True:
        await watcher.wait()
        await watcher.take()


async def test_the_index_names_the_paths_of_its_cluster(tmp_path: Path) -> None:
    """The index lists the paths of the resource tree and the fixed pages; those of a CRD only in its cluster."""
    async with running(ControlPlane(options(tmp_path))) as api:
        await api.ok("POST", f"/clusters/a{CRDS}", make_crd())
        await established(api, "a")
        here = (await api.ok("GET", "/clusters/a/"))["paths"]
        for path in ("/api", "/api/v1", "/apis", "/apis/example.com", "/apis/example.com/v1", "/openapi/v2", "/openapi/v3", "/version"):
            assert path in here
        assert "/openapi/v3/apis/example.com/v1" in here
        assert "/apis/example.com" not in (await api.ok("GET", "/clusters/root/"))["paths"]


async def test_clusters_have_host_names_with_the_option(tmp_path: Path) -> None:
    """An object that is created at the host name of a cluster is in that cluster, and not in another one."""
    settings = dataclasses.replace(options(tmp_path), external_hostname="kcp.test", cluster_hostnames=True)
    async with running(ControlPlane(settings)) as api:
        maps = MAPS.removeprefix("/clusters/a")
        await api.ok("POST", f"https://a.kcp.test:6443{maps}", config_map("one"))
        await api.ok("GET", f"{MAPS}/one")
        await api.ok("GET", f"https://a.kcp.test{maps}/one")
        await api.fails(404, "GET", f"https://b.kcp.test{maps}/one")
        await api.fails(404, "GET", f"{maps}/one")
        await api.fails(400, "GET", f"https://b.kcp.test{MAPS}/one")


async def test_a_control_plane_is_entered_once_at_a_time() -> None:
    """A second entry would take the store of the first one away. After the end, it may be entered again."""
    control_plane = ControlPlane(Options(storage="memory"))
    control_plane.authenticator(lambda _: UserInfo("admin", groups=("system:masters",)))
    async with control_plane:
        with pytest.raises(RuntimeError, match="entered already"):
            await control_plane.__aenter__()
        assert (await control_plane.client.list(Name("a"), GroupVersionResource("", "v1", "configmaps"))).items == []
    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as http:
        assert (await control_plane.client.list(Name("a"), GroupVersionResource("", "v1", "configmaps"))).items == []
        assert (await http.get("/readyz")).status_code == 200
        families = [line for line in (await http.get("/metrics")).text.splitlines() if line.startswith("# TYPE")]
        assert families
        assert len(set(families)) == len(families)


async def test_a_lifespan_may_begin_again() -> None:
    """As in an application whose tests start it several times."""
    control_plane = ControlPlane(Options(storage="memory"))
    for _ in range(2):
        messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}][::-1]
        sent: list[str] = []

        async def receive(left: list[dict[str, str]] = messages) -> dict[str, str]:
            assert left[-1]["type"] == "lifespan.startup" or await control_plane.client.list(
                Name("a"), GroupVersionResource("", "v1", "configmaps")
            )
            return left.pop()

        async def send(message: dict[str, str], types: list[str] = sent) -> None:
            types.append(message["type"])

        await control_plane({"type": "lifespan"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_members_before_the_context_say_what_to_do() -> None:
    """As the first mistake of a new program."""
    control_plane = ControlPlane(Options(storage="memory"))
    for name in ("app", "client", "snapshots"):
        with pytest.raises(AttributeError, match=f"no {name} before it is entered: use `async with control_plane`"):
            getattr(control_plane, name)
    with pytest.raises(AttributeError, match="has no attribute 'clients'"):
        getattr(control_plane, "clients")  # noqa: B009 - mypy knows that there is none
