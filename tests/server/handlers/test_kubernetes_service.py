"""The Service `default/kubernetes` and its endpoints, as clients meet them in clusters that serve these kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.widgets import CRDS, install

pytestmark = pytest.mark.anyio

SERVICES = "/clusters/{}/api/v1/namespaces/default/services"
KINDS = ("services", "endpoints", "endpointslices.discovery.k8s.io")


async def installed(api: Api, cluster: str, *names: str) -> None:
    """Have these kinds in a cluster."""
    for crd in crds_named(names):
        await install(api, crd, cluster)


@pytest.fixture
async def built_in(tmp_path: Path) -> AsyncIterator[Api]:
    """A server that has the kinds in every cluster."""
    async with ControlPlane(options(tmp_path, builtin_kinds=KINDS)) as control_plane:
        transport = httpx.ASGITransport(app=control_plane.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="https://test") as client:
            yield Api(client, control_plane)


def names_of(listed: Any) -> list[str]:
    return [f"{item['metadata']['annotations']['kcp.io/cluster']}/{item['metadata']['name']}" for item in listed["items"]]


async def stored(api: Api) -> list[str]:
    """The keys of the three kinds that hold an object."""
    storage = api.control_plane.backend.access.storage
    found = await storage.range("/registry/", keys_only=True)
    return [item.key for item in found.items if item.key.endswith("/default/kubernetes")]


async def test_it_is_there_where_its_kind_is_installed(api: Api) -> None:
    """The object of each installed kind is got and listed without being stored; other clusters do not serve it."""
    await installed(api, "a", *KINDS)
    service = await api.ok("GET", f"{SERVICES.format('a')}/kubernetes")
    assert service["spec"]["ports"][0]["port"] == 443
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert int(service["metadata"]["resourceVersion"]) > 0
    selector = {"labelSelector": "kubernetes.io/service-name=kubernetes"}
    slices = await api.ok("GET", "/clusters/a/apis/discovery.k8s.io/v1/endpointslices", params=selector)
    assert names_of(slices) == ["a/kubernetes"]
    assert names_of(await api.ok("GET", "/clusters/a/api/v1/endpoints")) == ["a/kubernetes"]
    assert names_of(await api.ok("GET", "/clusters/a/api/v1/namespaces/kube-system/services")) == []
    assert (await api("GET", f"{SERVICES.format('b')}/kubernetes")).status_code == 404
    assert await stored(api) == []


async def test_every_cluster_has_it_where_the_kind_is_built_in(built_in: Api) -> None:
    """Even a cluster that does not exist yet has the Service, and none is stored for it."""
    api = built_in
    for cluster in ("a", "b"):
        assert names_of(await api.ok("GET", SERVICES.format(cluster))) == [f"{cluster}/kubernetes"]
        await api.ok("POST", SERVICES.format(cluster), service("web"))
    everywhere = await api.ok("GET", "/clusters/*/api/v1/services")
    assert names_of(everywhere) == ["a/kubernetes", "a/web", "b/kubernetes", "b/web", "root/kubernetes"]
    assert await stored(api) == []


def service(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


async def test_it_can_be_changed_and_stays_so(api: Api) -> None:
    """A change stores it; a second creation conflicts, as on every cluster."""
    await installed(api, "a", "services")
    path = f"{SERVICES.format('a')}/kubernetes"
    before = await api.ok("GET", path)
    changed = await api.ok("PATCH", path, {"metadata": {"labels": {"team": "x"}}}, headers={"Content-Type": "application/merge-patch+json"})
    assert changed["metadata"]["uid"] == before["metadata"]["uid"]
    assert (await api.ok("GET", path))["metadata"]["labels"]["team"] == "x"
    assert names_of(await api.ok("GET", SERVICES.format("a"))) == ["a/kubernetes"]
    refused = await api.fails(409, "POST", SERVICES.format("a"), service("kubernetes"))
    assert refused["reason"] == "AlreadyExists"


async def test_it_comes_back_when_it_is_deleted(api: Api) -> None:
    """Each deletion ends with another uid, so that clients that wait for its end see it, and with the original content."""
    await installed(api, "a", "services")
    path = f"{SERVICES.format('a')}/kubernetes"
    uids = [(await api.ok("GET", path))["metadata"]["uid"]]
    for _ in range(2):
        await api.ok("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, headers={"Content-Type": "application/merge-patch+json"})
        assert (await api.ok("DELETE", path, params={"dryRun": "All"}))["metadata"]["uid"] == uids[-1]
        assert (await api.ok("GET", path))["metadata"]["uid"] == uids[-1]
        await api.ok("DELETE", path)
        again = await api.ok("GET", path)
        assert "x" not in again["metadata"]["labels"]
        uids.append(again["metadata"]["uid"])
    assert len(set(uids)) == 3
    await api.ok("DELETE", SERVICES.format("a"))
    assert (await api.ok("GET", path))["metadata"]["uid"] not in uids


@pytest.mark.parametrize("kinds", ["installed", "built in"])
async def test_it_comes_back_when_its_last_finalizer_goes(api: Api, built_in: Api, kinds: str) -> None:
    """A deletion that waited for finalizers ends as any other one: watches get the end of it and the next one, which has another uid."""
    if kinds == "built in":
        api = built_in
    else:
        await installed(api, "a", "services")
    path = f"{SERVICES.format('a')}/kubernetes"
    merge = {"Content-Type": "application/merge-patch+json"}
    before = await api.ok("PATCH", path, {"metadata": {"finalizers": ["example.com/x"]}}, headers=merge)
    await api.ok("DELETE", path)
    marked = await api.ok("GET", path)
    assert marked["metadata"]["uid"] == before["metadata"]["uid"]
    async with Watch(api, SERVICES.format("a"), resourceVersion=marked["metadata"]["resourceVersion"]) as watch:
        await api.ok("PATCH", path, {"metadata": {"finalizers": None}}, headers=merge)
        events = [await watch.next(), await watch.next()]
    again = await api.ok("GET", path)
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    assert "deletionTimestamp" not in again["metadata"]
    seen = [(event["type"], event["object"]["metadata"]["uid"]) for event in events if event]
    assert seen == [("DELETED", before["metadata"]["uid"]), ("ADDED", again["metadata"]["uid"])]


async def test_the_wildcard_sees_it_come_and_go(api: Api) -> None:
    """An open watch over all clusters gets it when its kind is installed in a further cluster, and loses it with the kind."""
    await installed(api, "a", "services")
    listed = await api.ok("GET", "/clusters/*/api/v1/services")
    assert names_of(listed) == ["a/kubernetes"]
    async with Watch(api, "/clusters/*/api/v1/services", resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await installed(api, "b", "services")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["annotations"]["kcp.io/cluster"]) == ("ADDED", "b")
        assert event["object"]["metadata"]["uid"] == (await api.ok("GET", f"{SERVICES.format('b')}/kubernetes"))["metadata"]["uid"]
        assert names_of(await api.ok("GET", "/clusters/*/api/v1/services")) == ["a/kubernetes", "b/kubernetes"]
        await uninstalled(api, "b", "services")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["metadata"]["annotations"]["kcp.io/cluster"]) == ("DELETED", "b")
    assert names_of(await api.ok("GET", "/clusters/*/api/v1/services")) == ["a/kubernetes"]


async def uninstalled(api: Api, cluster: str, name: str) -> None:
    path = f"/clusters/{cluster}{CRDS}"
    async with Watch(api, path) as watch:
        for crd in crds_named([name]):
            await api.ok("DELETE", f"{path}/{crd['metadata']['name']}")
            while (event := await watch.next()) is not None:
                if (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", crd["metadata"]["name"]):
                    break


async def test_its_kind_and_its_cluster_can_be_deleted(api: Api) -> None:
    """A stored Service does not come back while its definition or its cluster ends."""
    await installed(api, "a", "services")
    path = f"{SERVICES.format('a')}/kubernetes"
    await api.ok("DELETE", path)
    assert len(await stored(api)) == 1
    await uninstalled(api, "a", "services")
    assert await stored(api) == []
    assert (await api("GET", path)).status_code == 404
    await installed(api, "a", "services")
    await api.ok("DELETE", path)
    clusters = "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"
    async with Watch(api, clusters) as watch:
        await api.ok("DELETE", "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass
    assert await stored(api) == []


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_the_wildcard_are_complete(api: Api, limit: int) -> None:
    """Pages over clusters of which some lack the kind miss nothing and repeat nothing, in the order of keys."""
    for cluster in ("a", "a-b", "c"):
        await installed(api, cluster, "services")
    await api.ok("POST", "/clusters/b/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    await api.ok("POST", SERVICES.format("c"), service("web"))
    found: list[str] = []
    token = ""
    while True:
        page = await api.ok("GET", "/clusters/*/api/v1/services", params={"limit": str(limit), "continue": token})
        found += names_of(page)
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == ["a-b/kubernetes", "a/kubernetes", "c/kubernetes", "c/web"]


async def test_a_kind_of_the_same_name_has_none(api: Api) -> None:
    """A CRD that gives the name another schema is a custom resource of the tenant, which has no default objects."""
    await install(api, own_definition())
    assert names_of(await api.ok("GET", SERVICES.format("a"))) == []


def own_definition() -> dict[str, Any]:
    """A CRD that is named like that of Services and defines a kind of the tenant's own."""
    (crd,) = crds_named(["services"])
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    del crd["spec"]["versions"][0]["selectableFields"]
    return crd


async def test_a_kind_of_the_same_name_hides_none_of_others(api: Api) -> None:
    """Whatever a tenant defines by the name, and even while that terminates, the wildcard lists and watches the Services of the others."""
    await install(api, own_definition(), "a")
    await installed(api, "b", "services")
    services = "/clusters/*/api/v1/services"

    async def check() -> None:
        everywhere = await api.ok("GET", services)
        assert "b/kubernetes" in names_of(everywhere)
        async with Watch(api, services) as watch:
            clusters = set()
            while "b" not in clusters and (event := await watch.next()) is not None:
                clusters.add(event["object"]["metadata"]["annotations"]["kcp.io/cluster"])
            assert "b" in clusters

    await check()
    held = service("held")
    held["metadata"]["finalizers"] = ["example.com/x"]
    await api.ok("POST", SERVICES.format("a"), held)
    await api.ok("DELETE", f"/clusters/a{CRDS}/services.core")
    await check()
