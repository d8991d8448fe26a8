"""A source of a library user adds resources to some clusters, and they are resources like any other there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.serializer.protobuf import decode, decode_envelope, encode_object
from kcp_py.apis.upstream.resources import upstream_resources
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.registry.catalog.source import Dependency, EndedWatches, ResourceSource, ServedChange, SourceContext
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.registry.rest.storage import ObjectEvent as RestEvent
from kcp_py.storage.contract import Compare, Delete, KeyValue
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from kcp_py.watchcache import ObjectEvent
from tests.server.handlers.conftest import Api, Watch, config_map, established, make_crd, options

pytestmark = pytest.mark.anyio

DEPLOYMENTS = "apis/apps/v1/namespaces/default/deployments"
MERGE = {"Content-Type": "application/merge-patch+json"}
PROTOBUF = "application/vnd.kubernetes.protobuf"
DISCOVERY = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


class Names(RestStorage):
    """A computed resource: the name of the cluster."""

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        return [{"metadata": {"name": str(request.target.cluster_state.name)}}]

    async def watch(self, request: ReadRequest) -> AsyncGenerator[RestEvent, None]:
        for found in await self.list(request):
            yield RestEvent("ADDED", found)
        await asyncio.Event().wait()


class GoldSource(ResourceSource):
    """Deployments and a computed resource, for clusters whose LogicalCluster has the label `tier=gold`."""

    def connect(self, context: SourceContext) -> None:
        self._storage = context.storage
        self._keys = logical_cluster_keys(context.root)
        names = ComputedResource(group="example.com", version="v1", resource="names", kind="Name", rest=Names(), namespaced=False)
        self._resources = (*upstream_resources(context.root, ["deployments.apps"]), context.serve(names))

    @property
    def declared(self) -> Sequence[ServedResource]:
        return self._resources

    async def resources(self, cluster: Name) -> Sequence[Served]:
        item = await self._storage.get(self._keys.object_key(cluster, "", "cluster"))
        if item is None or not is_gold(item.value):
            return ()
        guards = (Compare(item.key, mod_revision=item.mod_revision),)
        life = (Compare(item.key, create_revision=item.create_revision),)
        return [Served(resource, guards=guards, life=life) for resource in self._resources]

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        return (Dependency(self._keys.prefix, cluster),)

    async def group_resources(self) -> Collection[GroupResource]:
        return {resource.group_resource for resource in self._resources}

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        if resource not in await self.group_resources():
            return ()
        found = await self._storage.range(self._keys.prefix)
        return [self._keys.parse(item.key).cluster for item in found.items if is_gold(item.value)]

    def ended_by(self, event: ObjectEvent) -> Iterable[EndedWatches]:
        if event.value is None or is_gold(event.value):
            return ()
        return [EndedWatches(resource.keys.prefix, Name(event.route.cluster)) for resource in self._resources]

    def changes(self, event: ObjectEvent) -> Iterable[ServedChange]:
        before, now = event.previous is not None and is_gold(event.previous.value), event.value is not None and is_gold(event.value)
        if before == now:
            return ()
        return [ServedChange(resource.keys.prefix, Name(event.route.cluster), now) for resource in self._resources]


def is_gold(value: bytes) -> bool:
    """Whether a LogicalCluster has the label."""
    labels: dict[str, str] = orjson.loads(value)["metadata"].get("labels") or {}
    return labels.get("tier") == "gold"


class Interference(AdmissionPlugin):
    """Takes the label from the cluster of a deployment named `late`, while the deployment is being written."""

    api: Api

    async def validate(self, attributes: Attributes) -> None:
        if attributes.name == "late":
            await mark(self.api, "a", None)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane with the source. Of the clusters a, b and c, a and b are gold."""
    interference = Interference()
    async with ControlPlane(options(tmp_path), apis=[GoldSource()], admission=[interference]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            interference.api = api = Api(client, control_plane)
            for cluster in "abc":
                await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))
            await mark(api, "a", "gold")
            await mark(api, "b", "gold")
            yield api


async def not_served(api: Api, method: str, path: str, body: Any = None) -> bool:
    """Whether there is no such resource, in the words of a path that nothing serves."""
    answer = await api(method, path, body)
    return (answer.status_code, answer.text) == (404, "404 page not found\n")


async def mark(api: Api, cluster: str, tier: str | None) -> None:
    path = f"/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    await api.ok("PATCH", path, {"metadata": {"labels": {"tier": tier}}}, headers=MERGE)


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def places(listed: dict[str, Any]) -> list[tuple[str, str]]:
    """Cluster and name of the items of a list."""
    return [(item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["name"]) for item in listed["items"]]


async def test_requests(api: Api) -> None:
    """Objects are created, defaulted, read, listed, changed and deleted where the label is, and nowhere else."""
    created = await api.ok("POST", f"/clusters/a/{DEPLOYMENTS}", deployment("web"))
    assert created["spec"]["replicas"] == 1
    assert (await api.ok("GET", f"/clusters/a/{DEPLOYMENTS}/web"))["metadata"]["uid"] == created["metadata"]["uid"]
    patched = await api.ok("PATCH", f"/clusters/a/{DEPLOYMENTS}/web", {"spec": {"replicas": 3}}, headers=MERGE)
    assert patched["spec"]["replicas"] == 3
    assert (await api.ok("GET", f"/clusters/a/{DEPLOYMENTS}/web/scale"))["spec"]["replicas"] == 3
    assert (await api.ok("GET", f"/clusters/b/{DEPLOYMENTS}"))["items"] == []
    assert [one["metadata"]["name"] for one in (await api.ok("GET", "/clusters/b/apis/example.com/v1/names"))["items"]] == ["b"]
    await api.ok("DELETE", f"/clusters/a/{DEPLOYMENTS}/web")
    assert await not_served(api, "POST", f"/clusters/c/{DEPLOYMENTS}", deployment("web"))
    assert await not_served(api, "GET", "/clusters/c/apis/example.com/v1/names")


async def test_discovery_and_openapi(api: Api) -> None:
    """Every document names the resources where the label is; clusters with the same resources share the documents."""
    groups = {}
    for cluster in ("a", "c", "*"):
        plain = {group["name"] for group in (await api.ok("GET", f"/clusters/{cluster}/apis"))["groups"]}
        aggregated = await api.ok("GET", f"/clusters/{cluster}/apis", headers=DISCOVERY)
        assert {item["metadata"]["name"] for item in aggregated["items"]} == plain
        groups[cluster] = plain & {"apps", "example.com"}
    assert groups == {"a": {"apps", "example.com"}, "c": set(), "*": {"apps", "example.com"}}
    entries = [one["name"] for one in (await api.ok("GET", "/clusters/a/apis/apps/v1"))["resources"]]
    assert entries == ["deployments", "deployments/status", "deployments/scale"]
    assert "apis/apps/v1" in (await api.ok("GET", "/clusters/a/openapi/v3"))["paths"]
    assert "apis/apps/v1" not in (await api.ok("GET", "/clusters/c/openapi/v3"))["paths"]
    v3 = await api.ok("GET", "/clusters/a/openapi/v3/apis/apps/v1")
    assert "io.k8s.api.apps.v1.Deployment" in v3["components"]["schemas"]
    assert "/apis/example.com/v1/names" in (await api.ok("GET", "/clusters/a/openapi/v2"))["paths"]
    assert "/apis/example.com/v1/names" not in (await api.ok("GET", "/clusters/c/openapi/v2"))["paths"]
    tables = api.control_plane.backend.tables
    a, b, c = [await tables.get(Name(cluster)) for cluster in "abc"]
    assert a.digest == b.digest != c.digest
    assert c is tables.builtin_table


async def test_protobuf(api: Api) -> None:
    """The kind has a message, so that typed clients send and get it."""
    headers = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
    created = await api("POST", f"/clusters/a/{DEPLOYMENTS}", content=encode_object(deployment("web")), headers=headers)
    assert (created.status_code, created.headers["content-type"]) == (201, PROTOBUF)
    assert decode("io.k8s.api.apps.v1.Deployment", decode_envelope(created.content).raw)["spec"]["replicas"] == 1
    listed = await api("GET", f"/clusters/a/{DEPLOYMENTS}", headers={"Accept": PROTOBUF})
    assert [
        item["metadata"]["name"] for item in decode("io.k8s.api.apps.v1.DeploymentList", decode_envelope(listed.content).raw)["items"]
    ] == ["web"]


async def test_a_watch_ends_when_the_label_goes(api: Api) -> None:
    """That of the cluster which loses the label; the watch of another one goes on."""
    async with Watch(api, f"/clusters/a/{DEPLOYMENTS}") as ending, Watch(api, f"/clusters/b/{DEPLOYMENTS}") as lasting:
        await api.ok("POST", f"/clusters/a/{DEPLOYMENTS}", deployment("web"))
        assert await ending.brief() == ("ADDED", "web")
        await mark(api, "a", None)
        assert await ending.next() is None
        assert await not_served(api, "GET", f"/clusters/a/{DEPLOYMENTS}/web")
        await api.ok("POST", f"/clusters/b/{DEPLOYMENTS}", deployment("other"))
        assert await lasting.brief() == ("ADDED", "other")
    await mark(api, "a", "gold")
    assert (await api.ok("GET", f"/clusters/a/{DEPLOYMENTS}/web"))["metadata"]["name"] == "web"


async def test_all_clusters_at_once(api: Api) -> None:
    """Lists and watches show the objects of clusters with the label, as long as they have it; so does a GET by name alone."""
    async with Watch(api, "/clusters/*/apis/apps/v1/deployments") as watch:
        for cluster in "ab":
            await api.ok("POST", f"/clusters/{cluster}/{DEPLOYMENTS}", deployment(f"web-{cluster}"))
        assert [await watch.brief(), await watch.brief()] == [("ADDED", "web-a"), ("ADDED", "web-b")]
        assert places(await api.ok("GET", "/clusters/*/apis/apps/v1/deployments")) == [("a", "web-a"), ("b", "web-b")]
        await mark(api, "a", None)
        assert await watch.brief() == ("DELETED", "web-a")
        assert places(await api.ok("GET", "/clusters/*/apis/apps/v1/deployments")) == [("b", "web-b")]
        assert places(await api.ok("GET", "/clusters/*/apis/example.com/v1/names")) == [("b", "b")]
        await api.ok("GET", f"/clusters/*/{DEPLOYMENTS}/web-b")
        await api.fails(404, "GET", f"/clusters/*/{DEPLOYMENTS}/web-a")
        await api.ok("DELETE", f"/clusters/b/{DEPLOYMENTS}/web-b")
        assert await watch.brief() == ("DELETED", "web-b")
    await mark(api, "b", None)
    assert await not_served(api, "GET", "/clusters/*/apis/apps/v1/deployments")


async def test_a_watch_over_all_clusters_shows_the_objects_of_the_label(api: Api) -> None:
    """They are DELETED with it and ADDED with it, at their own resourceVersion, also for a client that resumes before both.

    Other changes of the cluster do not appear.
    """
    for name in ("one", "two"):
        created = await api.ok("POST", f"/clusters/a/{DEPLOYMENTS}", deployment(name))
    since = created["metadata"]["resourceVersion"]
    shown = [("DELETED", "one"), ("DELETED", "two"), ("ADDED", "one"), ("ADDED", "two"), ("ADDED", "last")]
    path = "/clusters/*/apis/apps/v1/deployments"
    async with Watch(api, path, resourceVersion=since) as watch:
        await mark(api, "a", "silver")
        await mark(api, "a", "bronze")
        ends = [await watch.next(), await watch.next()]
        assert [(event or {})["object"]["metadata"]["name"] for event in ends] == ["one", "two"]
        first = (ends[0] or {})["object"]["metadata"]["resourceVersion"]
        await mark(api, "a", "gold")
        assert [await watch.brief()] == [("ADDED", "one")]
        event = await watch.next()
        assert event is not None
        assert event["object"]["metadata"]["resourceVersion"] == since
        updated = await api.ok("PUT", f"/clusters/a/{DEPLOYMENTS}/two", event["object"])
        assert updated["metadata"]["name"] == "two"
        await api.ok("POST", f"/clusters/a/{DEPLOYMENTS}", deployment("last"))
        assert await watch.brief() == ("ADDED", "last")
    for start, missed in ((since, 0), (first, 0)):
        async with Watch(api, path, resourceVersion=start) as watch:
            assert [await watch.brief() for _ in shown[missed:]] == shown[missed:]


async def test_a_watch_of_a_computed_resource_over_all_clusters_follows_the_label(api: Api) -> None:
    """Its objects are DELETED with the label and ADDED with it."""
    async with Watch(api, "/clusters/*/apis/example.com/v1/names") as watch:
        assert sorted([await watch.brief(), await watch.brief()]) == [("ADDED", "a"), ("ADDED", "b")]
        await mark(api, "a", None)
        assert await watch.brief() == ("DELETED", "a")
        await mark(api, "c", "gold")
        assert await watch.brief() == ("ADDED", "c")
        await mark(api, "a", "gold")
        assert await watch.brief() == ("ADDED", "a")


async def test_a_write_under_way_is_not_stored_when_the_label_goes(api: Api) -> None:
    """Its guards do not hold any more: it is tried again, and finds that the cluster does not serve the resource."""
    assert await not_served(api, "POST", f"/clusters/a/{DEPLOYMENTS}", deployment("late"))
    await mark(api, "a", "gold")
    assert (await api.ok("GET", f"/clusters/a/{DEPLOYMENTS}"))["items"] == []


async def test_a_crd_of_the_same_name(api: Api) -> None:
    """It serves where the label is not, with objects of its own; where the label is, the source comes first."""
    for cluster in "ac":
        await api.ok(
            "POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd("names", "example.com")
        )
        await established(api, cluster, "names.example.com")
    await api.ok(
        "POST",
        "/clusters/c/apis/example.com/v1/namespaces/default/names",
        {"apiVersion": "example.com/v1", "kind": "Name", "metadata": {"name": "own"}},
    )
    assert [one["metadata"]["name"] for one in (await api.ok("GET", "/clusters/a/apis/example.com/v1/names"))["items"]] == ["a"]
    assert places(await api.ok("GET", "/clusters/c/apis/example.com/v1/names")) == [("c", "own")]
    assert places(await api.ok("GET", "/clusters/*/apis/example.com/v1/names")) == [("a", "a"), ("b", "b")]


async def test_objects_go_with_their_namespace_and_cluster(api: Api) -> None:
    """Also those that the cluster does not serve any more."""
    storage = api.control_plane.backend.access.storage

    async def stored() -> list[KeyValue]:
        return list((await storage.range("/registry/apps/deployments/", keys_only=True)).items)

    await api.ok("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "other"}})
    for path in (DEPLOYMENTS, DEPLOYMENTS.replace("default", "other")):
        await api.ok("POST", f"/clusters/a/{path}", deployment("web"))
    await mark(api, "a", None)
    async with asyncio.timeout(30):
        await api.ok("DELETE", "/clusters/a/api/v1/namespaces/other")
        while len(await stored()) == 2:
            await asyncio.sleep(0)
        assert [item.key for item in await stored()] == ["/registry/apps/deployments/a/default/web"]
        await api.ok("DELETE", "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        while await stored():
            await asyncio.sleep(0)


async def test_a_change_by_another_server_counts(api: Api) -> None:
    """A LogicalCluster that goes behind the back of this server takes the resources along."""
    await api.ok("POST", f"/clusters/a/{DEPLOYMENTS}", deployment("web"))
    backend = api.control_plane.backend
    revision = await backend.access.storage.transact((), (Delete("/registry/core.kcp.io/logicalclusters/a/cluster"),))
    await backend.fanout.reached(revision)
    assert await not_served(api, "GET", f"/clusters/a/{DEPLOYMENTS}/web")
