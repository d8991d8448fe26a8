"""Clusters at rest leave all caches, the estimates of their memory are honest, and no answer is stale because of either."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import Put
from tests.authz.conftest import ALICE, GROUP, USERS, binding, role, rule
from tests.client.registry import make_crd
from tests.registry.conftest import stored
from tests.server.handlers.conftest import Api, config_map, options

pytestmark = pytest.mark.anyio

CLUSTERS = 40
DOCUMENTS = ("api", "apis", "apis/example.com/v1", "openapi/v2", "openapi/v3")


@pytest.fixture(params=[0, 30_000], ids=["nothing", "few clusters"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    """A server whose caches have room for one cluster, or for a few."""
    users = tmp_path / "users.csv"
    users.write_text(USERS)
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users, cluster_cache_bytes=request.param)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


def indexes_of(control_plane: ControlPlane) -> RBACIndexes:
    observers = control_plane.backend.access.observers.values()
    return next(one for each in observers for one in each if isinstance(one, RBACIndexes))


def content(cluster: Name, kind: str) -> list[Put]:
    """The objects of a cluster: ten definitions that all clusters have, or its own ones, or roles and bindings."""
    if kind == "roles":
        path = f"/registry/{GROUP}"
        rules = [rule("get list", "configmaps secrets", names=f"of-{cluster}")]
        return [
            *(Put(f"{path}/clusterroles/{cluster}/r{n}", orjson.dumps(role(f"r{n}", *rules))) for n in range(5)),
            *(Put(f"{path}/clusterrolebindings/{cluster}/b{n}", orjson.dumps(binding(f"b{n}", f"r{n}", "User:alice"))) for n in range(5)),
        ]
    crds = []
    for number in range(10):
        crd: dict[str, Any] = make_crd(f"widgets{number}", kind=f"Widget{number}")
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        properties = {f"field{n}": {"type": "string", "maxLength": 10, "description": "A field."} for n in range(20)}
        schema["properties"] = {"spec": {"type": "object", "properties": properties}}
        if kind == "own definitions":
            schema["description"] = f"of {cluster}"
        crds.append(stored(crd))
    path = f"/registry/apiextensions.k8s.io/customresourcedefinitions/{cluster}"
    return [Put(f"{path}/{crd['metadata']['name']}", orjson.dumps(crd)) for crd in crds]


async def define(api: Api, cluster: str) -> None:
    """Create a definition in a cluster, and wait until it is served."""
    await api.ok("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
    async with asyncio.timeout(30):
        while (await api("GET", f"/clusters/{cluster}/apis/example.com/v1/namespaces/default/widgets")).status_code == 404:
            await asyncio.sleep(0)


async def touch(control_plane: ControlPlane, cluster: Name) -> None:
    """Load what requests of a cluster need, and use it."""
    backend = control_plane.backend
    assert await backend.clusters.state(cluster) is not None
    table = await backend.tables.get(cluster)
    for served in table.served.values():
        obj: dict[str, Any] = {"apiVersion": served.resource.group_version, "kind": served.resource.kind, "metadata": {}, "spec": {}}
        served.resource.schema.prune(obj)
        served.resource.schema.default(obj)
        served.resource.schema.validate(obj)
    index = await indexes_of(control_plane).get(cluster)
    index.allowing(UserInfo("alice"), UNPARSED._replace(is_resource=True, verb="get", resource="configmaps"))


@pytest.mark.parametrize("kind", ["nothing", "definitions", "own definitions", "roles"])
async def test_estimates_are_those_of_the_interpreter(tmp_path: Path, kind: str):
    """The sizes that caches state are between half of the memory that the interpreter allocates for clusters, and three times as much."""
    async with ControlPlane(options(tmp_path, controllers=("-*",))) as control_plane:
        backend, budget = control_plane.backend, control_plane.backend.access.budget
        names = [Name(f"c{number}") for number in range(CLUSTERS)]
        for name in names:
            await backend.clusters.ensure(name)
            await backend.access.storage.transact((), content(name, kind) if kind != "nothing" else ())
        await backend.fanout.reached(await backend.access.storage.revision())
        # The first cluster makes the values that all clusters share.
        await touch(control_plane, names[0])
        gc.collect()
        before = budget.size
        tracemalloc.start()
        try:
            for name in names[1:]:
                await touch(control_plane, name)
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        ratio = (budget.size - before) / taken
        assert 0.5 < ratio < 3, f"{(budget.size - before) / CLUSTERS:.0f} estimated, {taken / CLUSTERS:.0f} taken"
        assert budget.evictions == 0


async def test_an_evicted_cluster_leaves_nothing(tmp_path: Path):
    """The definitions that it alone has go with it, and those of others stay."""
    async with ControlPlane(options(tmp_path, cluster_cache_bytes=0, controllers=("-*",))) as control_plane:
        backend = control_plane.backend
        for name in (Name("a"), Name("b")):
            await backend.clusters.ensure(name)
            await backend.access.storage.transact((), content(name, "own definitions"))
        await backend.fanout.reached(await backend.access.storage.revision())
        await touch(control_plane, Name("a"))
        assert len(backend.tables) == 1
        await touch(control_plane, Name("b"))
        assert (backend.tables.peek(Name("a")), backend.clusters.peek(Name("a"))) == (None, None)
        assert len(indexes_of(control_plane)._entries) == 1
        gc.collect()
        assert [len(source.compiled) for source in backend.tables.sources if isinstance(source, CRDSource)] == [10]


async def test_a_deleted_cluster_leaves_nothing(tmp_path: Path):
    """No cache keeps entries of clusters that are gone, however much room there is and whatever was being read meanwhile."""
    async with (
        ControlPlane(options(tmp_path)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api, backend = Api(client, control_plane), control_plane.backend
        own = [f"/clusters/{name}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster" for name in ("a", "b")]
        for path, name in zip(own, ("a", "b"), strict=True):
            await api.ok("POST", f"/clusters/{name}/api/v1/namespaces/default/configmaps", config_map("first"))
            await define(api, name)
            documents = [f"/clusters/{name}/{document}" for document in DOCUMENTS]
            for document in documents:
                await api.ok("GET", document)
            await asyncio.gather(*(api("GET", document) for document in documents * 4), api.ok("DELETE", path))
        async with asyncio.timeout(30):
            while any([(await api("GET", path)).status_code != 404 for path in own]):
                await asyncio.sleep(0)
        await backend.fanout.reached(await backend.access.storage.revision())
        assert {cache: size for (cache,), size in backend.access.budget.sizes().items() if size} == {}


async def test_documents_go_with_the_last_cluster_that_uses_them(tmp_path: Path):
    """Clusters that serve the same share documents, and a later cluster of the name of a deleted one has none of its resources."""
    async with (
        ControlPlane(options(tmp_path)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api, backend = Api(client, control_plane), control_plane.backend
        budget = backend.access.budget

        def shared() -> float:
            return budget.sizes()["shared",]

        async def delete(name: str) -> None:
            path = f"/clusters/{name}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
            await api.ok("DELETE", path)
            async with asyncio.timeout(30):
                while (await api("GET", path)).status_code != 404:
                    await asyncio.sleep(0)
            await backend.fanout.reached(await backend.access.storage.revision())

        for name in ("a", "b"):
            await define(api, name)
        compiled = shared()
        await api.ok("GET", "/clusters/a/apis")
        described = shared()
        assert described > compiled + 200_000
        await api.ok("GET", "/clusters/b/apis")
        assert shared() == described
        await delete("a")
        assert shared() == described
        assert (await api("GET", "/clusters/a/apis/example.com")).status_code == 404
        await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("first"))
        assert (await api("GET", "/clusters/a/apis/example.com")).status_code == 404
        await delete("b")
        await delete("a")
        assert shared() == 0


async def test_documents_of_resources_that_are_not_served_any_more_are_replaced(tmp_path: Path):
    """A cluster uses the documents of what it serves now, and those of before are not kept for it."""
    async with (
        ControlPlane(options(tmp_path)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api, budget = Api(client, control_plane), control_plane.backend.access.budget
        await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("first"))
        await api.ok("GET", "/clusters/a/apis")
        before = budget.sizes()["shared",]
        await define(api, "a")
        assert "example.com" in (await api("GET", "/clusters/a/apis")).text
        crd = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
        await api.ok("DELETE", crd)
        async with asyncio.timeout(30):
            while (await api("GET", crd)).status_code != 404:
                await asyncio.sleep(0)
        assert "example.com" not in (await api("GET", "/clusters/a/apis")).text
        assert budget.sizes()["shared",] == before


async def test_nothing_is_stale_when_clusters_come_and_go(api: Api):
    """Each answered write counts for the next request, of whatever cluster, while all of them push each other out of the caches."""

    async def work(cluster: str, seed: int) -> None:
        own = random.Random(seed)
        base = f"/clusters/{cluster}"
        maps, bindings = f"{base}/api/v1/namespaces/default/configmaps", f"{base}/apis/{GROUP}/v1/clusterrolebindings"
        crds = f"{base}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        widgets = f"{base}/apis/example.com/v1/namespaces/default/widgets"
        allowed = defined = False
        await api.ok("POST", maps, config_map("first"))
        for _ in range(12):
            step = own.choice(["grant", "revoke", "define", "undefine", "again"])
            if step == "grant" and not allowed:
                await api.ok("POST", bindings, binding("alice", "cluster-admin", "User:alice"))
                allowed = True
            elif step == "revoke" and allowed:
                await api.ok("DELETE", f"{bindings}/alice")
                allowed = False
            elif step == "define" and not defined:
                await api.ok("POST", crds, make_crd())
                async with asyncio.timeout(30):
                    while (await api("GET", widgets)).status_code == 404:
                        await asyncio.sleep(0)
                defined = True
            elif step == "undefine" and defined:
                await api.ok("DELETE", f"{crds}/widgets.example.com")
                async with asyncio.timeout(30):
                    while (await api("GET", f"{crds}/widgets.example.com")).status_code != 404:
                        await asyncio.sleep(0)
                defined = False
            elif step == "again":
                await api.ok("DELETE", f"{base}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
                async with asyncio.timeout(30):
                    while (await api("POST", maps, config_map("first"))).status_code != 201:
                        await asyncio.sleep(0)
                allowed = defined = False
            assert (await api("GET", maps, token=ALICE)).status_code == (200 if allowed else 403)
            assert (await api("GET", widgets)).status_code == (200 if defined else 404)

    await asyncio.gather(*(work(f"team-{number}", number) for number in range(6)))
    assert api.control_plane.backend.access.budget.evictions > 50
