"""What a cluster holds is counted when it is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import RangeResult
from kcp_py.storage.memory import MemoryStorage
from tests.eventloop import until_idle
from tests.server.handlers.conftest import Api, api, config_map, established, instance, make_crd, options

__all__ = ["api"]

pytestmark = pytest.mark.anyio

USAGE = "/clusters/a/apis/metrics.kcp-py.dev/v1alpha1/clusterusages/cluster"


async def test_objects_and_bytes_are_counted_by_resource(api: Api) -> None:
    """Built-in ones and custom resources, in all namespaces, as large as they are stored; other clusters are not counted."""
    for name in ("one", "two"):
        await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map(name, {"a": "b" * 1000}))
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
    await established(api, "a")
    await api.ok("POST", "/clusters/a/apis/example.com/v1/namespaces/kube-system/widgets", instance("w"))
    await api.ok("POST", "/clusters/b/api/v1/namespaces/default/configmaps", config_map("other"))
    usage = (await api.ok("GET", USAGE))["usage"]
    found = {(one["group"], one["resource"]): one["objects"] for one in usage["resources"]}
    assert found == {
        ("", "configmaps"): 2,
        ("example.com", "widgets"): 1,
        ("apiextensions.k8s.io", "customresourcedefinitions"): 1,
        ("core.kcp.io", "logicalclusters"): 1,
    }
    storage = api.control_plane.backend.access.storage
    stored = await storage.range("/registry/core/configmaps/a/")
    (maps,) = (one for one in usage["resources"] if one["resource"] == "configmaps")
    assert maps["bytes"] == sum(len(item.value) for item in stored.items) > 2000
    assert usage["objects"] == 5
    assert usage["bytes"] == sum(one["bytes"] for one in usage["resources"])
    assert [one["bytes"] for one in usage["resources"]] == sorted((one["bytes"] for one in usage["resources"]), reverse=True)


async def test_a_cluster_without_objects(api: Api) -> None:
    """Default namespaces are not stored, and asking stores nothing."""
    assert (await api.ok("GET", USAGE))["usage"] == {"objects": 0, "bytes": 0, "resources": []}
    assert (await api.control_plane.backend.access.storage.range("/registry/core.kcp.io/logicalclusters/a/")).items == []


async def test_it_is_read_only(api: Api) -> None:
    """And there is one of each cluster."""
    await api.fails(404, "GET", USAGE.removesuffix("cluster") + "other")
    assert (await api("DELETE", USAGE)).status_code == 405
    assert (await api("PUT", USAGE, {"metadata": {"name": "cluster"}})).status_code == 405


async def test_a_table_over_all_clusters(api: Api) -> None:
    """An administrator sees who holds what at a glance."""
    for cluster in ("a", "b"):
        await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = await api.ok("GET", "/clusters/*/apis/metrics.kcp-py.dev/v1alpha1/clusterusages", headers=headers)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Cluster", "Name", "Objects", "Bytes"]
    assert [row["cells"][:3] for row in table["rows"]] == [["a", "cluster", 2], ["b", "cluster", 2], ["root", "cluster", 1]]


async def test_the_client_of_the_process_reads_it(api: Api) -> None:
    """As over HTTP."""
    await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("one"))
    usages = GroupVersionResource("metrics.kcp-py.dev", "v1alpha1", "clusterusages")
    client = api.control_plane.client
    found = await client.get(Name("a"), usages, "", "cluster")
    assert orjson.loads(orjson.dumps(found)) == await api.ok("GET", USAGE)
    assert list((await client.list(Name("a"), usages)).items) == [found]


class GatedStorage(MemoryStorage):
    """Counts the pages that are read of config maps, and holds them back."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = 0
        self.gate = asyncio.Event()

    async def range(self, prefix: str, **options: Any) -> RangeResult:
        if "/core/configmaps/a/" in prefix and options.get("limit"):
            self.pages += 1
            await self.gate.wait()
        return await super().range(prefix, **options)


async def test_requests_at_the_same_time_share_counts(tmp_path: Path) -> None:
    """Two counts serve any number of callers: the running one, and the next one, which sees all writes before their requests."""
    storage = GatedStorage()
    usages = GroupVersionResource("metrics.kcp-py.dev", "v1alpha1", "clusterusages")
    async with ControlPlane(options(tmp_path), storage=storage) as control_plane:
        client = control_plane.client
        first = asyncio.ensure_future(client.get(Name("a"), usages, "", "cluster"))
        while not storage.pages:
            await asyncio.sleep(0)
        maps = GroupVersionResource("", "v1", "configmaps")
        await client.create(Name("a"), maps, {"metadata": {"name": "late", "namespace": "default"}})
        others = [asyncio.ensure_future(client.get(Name("a"), usages, "", "cluster")) for _ in range(20)]
        await until_idle()
        storage.gate.set()
        await first
        found = await asyncio.gather(*others)
        assert storage.pages == 2
        assert all({"configmaps"} <= {one["resource"] for one in usage["usage"]["resources"]} for usage in found)
