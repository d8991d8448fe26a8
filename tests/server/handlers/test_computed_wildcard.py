"""A watch over all clusters of a resource that a user's class serves merges the watches of the clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import WILDCARD
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.rest import wildcardwatch
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest
from tests.server.handlers.conftest import Api, Watch, config_map, options
from tests.server.handlers.kept import Kept

pytestmark = pytest.mark.anyio

NOTES = "/clusters/*/apis/example.com/v1/notes"


class Moody(Kept):
    """Never answers in clusters named `slow`, and never pauses in those named `endless`."""

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        cluster = request.target.cluster_state.name
        if cluster == "slow":
            await asyncio.Event().wait()
        while cluster == "endless":
            yield ObjectEvent("MODIFIED", note("endless"))
        async with aclosing(super().watch(request)) as events:
            async for event in events:
                yield event


def note(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "labels": labels}, "spec": {}}


@pytest.fixture
def kept() -> Moody:
    return Moody()


@pytest.fixture
async def api(tmp_path: Path, kept: Kept) -> AsyncIterator[Api]:
    """The administrator of a control plane with the clusters root, a and b."""
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    resource = ComputedResource(group="example.com", version="v1", resource="notes", kind="Note", rest=kept, columns=columns)
    async with ControlPlane(options(tmp_path), apis=[resource]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for cluster in ("a", "b"):
                await begin(api, cluster)
            yield api


async def begin(api: Api, cluster: str) -> None:
    await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", config_map("one"))


async def end(api: Api, cluster: str) -> None:
    path = f"/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    await api.ok("DELETE", path)
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code != 404:
            await asyncio.sleep(0)


async def following(kept: Kept, *clusters: str) -> None:
    """Wait until the class is watched in these clusters, and in no other one."""
    async with asyncio.timeout(30):
        while {cluster for cluster, _ in kept.watches} != set(clusters):
            await asyncio.sleep(0)


async def place(watch: Watch) -> tuple[str, str, str]:
    """Type, cluster and name of the next event."""
    event = await watch.next()
    assert event is not None
    metadata = event["object"]["metadata"]
    return event["type"], metadata["annotations"]["kcp.io/cluster"], metadata["name"]


async def test_the_state_and_the_changes_of_all_clusters(api: Api, kept: Kept) -> None:
    """With the name of the cluster of each object, as those of stored objects have it; the generators are closed with the watch."""
    for cluster in ("a", "b"):
        kept.put(cluster, "n", size=1)
    async with Watch(api, NOTES) as watch:
        assert {await place(watch), await place(watch)} == {("ADDED", "a", "n"), ("ADDED", "b", "n")}
        await following(kept, "a", "b", "root")
        kept.tell("b", ObjectEvent("MODIFIED", note("n")))
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["kind"], event["object"]["metadata"]["clusterName"]) == ("MODIFIED", "Note", "b")
        kept.tell("a", ObjectEvent("DELETED", note("n")))
        assert await place(watch) == ("DELETED", "a", "n")
    await following(kept)


async def test_objects_are_selected_in_each_cluster(api: Api, kept: Kept) -> None:
    """An object of a name may be selected in one cluster and not in another; an unknown field is 400 before the stream begins."""
    async with Watch(api, NOTES, labelSelector="color=red") as watch:
        await following(kept, "a", "b", "root")
        kept.tell("a", ObjectEvent("ADDED", note("n", color="red")))
        assert await place(watch) == ("ADDED", "a", "n")
        kept.tell("b", ObjectEvent("ADDED", note("n", color="blue")))
        kept.tell("a", ObjectEvent("MODIFIED", note("n", color="blue")))
        assert await place(watch) == ("DELETED", "a", "n")
        kept.tell("b", ObjectEvent("MODIFIED", note("n", color="red")))
        assert await place(watch) == ("ADDED", "b", "n")
    await api.fails(400, "GET", NOTES, params={"watch": "true", "fieldSelector": "spec.size=1"})
    params = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    await api.fails(422, "GET", NOTES, params=params)


async def test_clusters_come_and_go(api: Api, kept: Kept) -> None:
    """Objects of a new cluster are ADDED. Those of one that goes are DELETED, with metadata alone; the other clusters go on."""
    kept.put("c", "n", size=1)
    async with Watch(api, NOTES) as watch:
        await following(kept, "a", "b", "root")
        await begin(api, "c")
        assert await place(watch) == ("ADDED", "c", "n")
        await end(api, "c")
        event = await watch.next()
        assert event == {
            "type": "DELETED",
            "object": {
                "apiVersion": "example.com/v1",
                "kind": "Note",
                "metadata": {
                    "name": "n",
                    "namespace": "default",
                    "uid": "uid-of-n",
                    "clusterName": "c",
                    "annotations": {"kcp.io/cluster": "c"},
                },
            },
        }
        await following(kept, "a", "b", "root")
        kept.put("a", "m")
        assert await place(watch) == ("ADDED", "a", "m")
        await begin(api, "c")
        assert await place(watch) == ("ADDED", "c", "n")


@pytest.mark.parametrize("failure", [KeyError("secret"), errors.expired("too old"), None], ids=["error", "status", "end"])
async def test_a_cluster_whose_watch_fails_is_left_out_for_a_while(api: Api, kept: Kept, failure: Exception | None) -> None:
    """Its objects are DELETED, and ADDED when its watch begins again; so are those of one whose generator ends. Others do not notice."""
    kept.put("a", "n")
    async with Watch(api, NOTES) as watch:
        assert await place(watch) == ("ADDED", "a", "n")
        await following(kept, "a", "b", "root")
        kept.tell("a", failure)
        assert await place(watch) == ("DELETED", "a", "n")
        kept.put("b", "m")
        assert await place(watch) == ("ADDED", "b", "m")
        assert await place(watch) == ("ADDED", "a", "n")


async def test_slow_and_endless_clusters_do_not_stop_others(api: Api, kept: Kept) -> None:
    """One whose class never answers, and one whose class never pauses."""
    for cluster in ("slow", "endless"):
        await begin(api, cluster)
    kept.put("b", "m")
    async with Watch(api, NOTES) as watch:
        async with asyncio.timeout(30):
            while await place(watch) != ("ADDED", "b", "m"):
                pass
            kept.put("a", "n")
            while await place(watch) != ("ADDED", "a", "n"):
                pass
    await following(kept)


async def test_a_watch_ends_in_time_and_with_the_server(api: Api, kept: Kept) -> None:
    """Without an error."""
    async with Watch(api, NOTES, timeoutSeconds="1") as watch:
        assert await watch.next() is None
    async with Watch(api, NOTES) as watch:
        await following(kept, "a", "b", "root")
        api.control_plane.backend.fanout.end_watches()
        assert await watch.next() is None
    await following(kept)


async def test_more_clusters_than_a_watch_follows(api: Api, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ERROR event that says so ends the watch: no cluster is left out in silence."""
    monkeypatch.setattr(wildcardwatch, "MOST_CLUSTERS", 3)
    async with Watch(api, NOTES) as watch:
        await following(kept, "a", "b", "root")
        await begin(api, "c")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"]) == ("ERROR", 405)
        assert "over more than 3 logical clusters" in event["object"]["message"]
        assert await watch.next() is None


async def test_a_table(api: Api, kept: Kept) -> None:
    """Its rows begin with the cluster, that of a deletion, too."""
    kept.put("a", "n", size=7)
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with Watch(api, NOTES, headers) as watch:
        event: Any = await watch.next()
        assert [column["name"] for column in event["object"]["columnDefinitions"]] == ["Cluster", "Name", "Size"]
        assert event["object"]["rows"][0]["cells"] == ["a", "n", 7]
        await following(kept, "a", "b", "root")
        await end(api, "a")
        event = await watch.next()
        assert (event["type"], event["object"]["rows"][0]["cells"][:2]) == ("DELETED", ["a", "n"])


async def test_the_client_of_the_process_watches_all_clusters(api: Api, kept: Kept) -> None:
    """As HTTP does."""
    kept.put("a", "n")
    resource = GroupVersionResource("example.com", "v1", "notes")
    async with aclosing(api.control_plane.client.watch(WILDCARD, resource, resource_version="0")) as events:
        event = await anext(events)
        assert (event.type, event.obj["metadata"]["clusterName"]) == ("ADDED", "a")
        await following(kept, "a", "b", "root")
        kept.put("b", "m")
        assert (await anext(events)).obj["metadata"]["clusterName"] == "b"
    await following(kept)
