"""A copied cluster is what requests would have created."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from kcp_py import ControlPlane, GroupVersionResource, Options, parse_name
from kcp_py.client.contract import Client
from kcp_py.storage.contract import Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from tests.fleet.content import Content
from tests.fleet.seeding import TEMPLATE, cluster_name, copy_clusters, seeded
from tests.fleet.template import read_template

pytestmark = pytest.mark.anyio

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
SMALL, REALISTIC = Content(2, 5), Content(2, 5, realistic=True)
UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Plane(NamedTuple):
    """A control plane and its store."""

    client: Client
    storage: Storage


@pytest.fixture(params=["memory", "sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Plane]:
    storage: Storage = MemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "kcp.db")
    async with ControlPlane(Options(storage="memory", root_directory=tmp_path), storage=storage) as made:
        yield Plane(made.client, storage)


def resource(content: Content, number: int) -> GroupVersionResource:
    return GroupVersionResource(content.group, "v1", content.plural(number))


async def create(plane: Plane, cluster: str, content: Content) -> None:
    """A cluster with its content, by the verbs of the API."""
    name, client = parse_name(cluster), plane.client
    metadata = {"metadata": {"name": "cluster"}}
    await client.create(name, CLUSTERS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", **metadata})
    for number in range(content.crds):
        await client.create(name, CRDS, orjson.loads(content.crd(number)))
    async with asyncio.timeout(30):
        while any(b'"storedVersions"' not in value or b"Established" not in value for value in await definitions(plane, cluster)):
            await asyncio.sleep(0.01)
    for at in range(content.objects):
        obj = orjson.loads(content.object(at % content.crds, f"o{at // content.crds}"))
        obj["metadata"]["namespace"] = "default"
        await client.create(name, resource(content, at % content.crds), obj)


async def definitions(plane: Plane, cluster: str) -> list[bytes]:
    found = await plane.storage.range(f"/registry/apiextensions.k8s.io/customresourcedefinitions/{cluster}/")
    return [item.value for item in found.items]


async def stored(storage: Storage, cluster: str) -> dict[str, bytes]:
    """Everything that the store has of a cluster, with the same name, times and uids for all clusters."""
    uids: dict[bytes, bytes] = {}

    def number(found: re.Match[bytes]) -> bytes:
        return uids.setdefault(found[0], b"uid-%d" % len(uids))

    found = {}
    for item in (await storage.range("/")).items:
        if f"/{cluster}/" in item.key:
            value = item.value.replace(cluster.encode(), b"NAME")
            found[item.key.replace(cluster, "NAME")] = UID.sub(number, TIME.sub(b"TIME", value))
    return found


@pytest.mark.parametrize("content", [SMALL, REALISTIC], ids=["small", "realistic"])
async def test_a_copy_has_the_keys_and_bytes_of_a_created_cluster(plane: Plane, content: Content) -> None:
    """All keys, and all bytes of the values but for uids, times and the name."""
    await create(plane, TEMPLATE, content)
    await create(plane, "created-0", content)
    template = await read_template(plane.storage, TEMPLATE)
    assert template.keys == 1 + content.crds + content.objects
    await plane.storage.transact((), [*template.copy("copied-00")])
    copied = await stored(plane.storage, "copied-00")
    assert copied == await stored(plane.storage, "created-0") == await stored(plane.storage, TEMPLATE)
    assert len(copied) == template.keys


async def test_uids_are_new_and_references_lead_to_copies(plane: Plane) -> None:
    """No uid of the template or of another copy is in a copy; an owner that is named by its uid is the copied one."""
    await create(plane, TEMPLATE, SMALL)
    client, name = plane.client, parse_name(TEMPLATE)
    owner = await client.get(name, resource(SMALL, 0), "default", "o0")
    reference = {"apiVersion": f"{SMALL.group}/v1", "kind": "G0", "name": "o0", "uid": owner["metadata"]["uid"]}
    owned = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
    await client.create(name, resource(SMALL, 1), {"apiVersion": f"{SMALL.group}/v1", "kind": "G1", "metadata": owned})
    template = await read_template(plane.storage, TEMPLATE)
    for copy in ("copy-a", "copy-b"):
        await plane.storage.transact((), [*template.copy(copy)])
    uids = {}
    for cluster in (TEMPLATE, "copy-a", "copy-b"):
        values = [item.value for item in (await plane.storage.range("/")).items if f"/{cluster}/" in item.key]
        uids[cluster] = {uid for value in values for uid in UID.findall(value)}
        assert len(uids[cluster]) == template.keys
    assert len(set().union(*uids.values())) == 3 * template.keys
    owner = await client.get(parse_name("copy-a"), resource(SMALL, 0), "default", "o0")
    dependent = await client.get(parse_name("copy-a"), resource(SMALL, 1), "default", "owned")
    assert dependent["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


async def test_a_copy_behaves_like_a_created_cluster(plane: Plane) -> None:
    """Its objects are read, changed and created, and it is deleted with all that it has."""
    await create(plane, TEMPLATE, SMALL)
    template = await read_template(plane.storage, TEMPLATE)
    await plane.storage.transact((), [*template.copy("copied")])
    client, name = plane.client, parse_name("copied")
    found = await client.get(name, resource(SMALL, 0), "default", "o0")
    updated = await client.update(name, resource(SMALL, 0), {**found, "spec": {"size": 4}})
    assert (updated["spec"], updated["metadata"]["uid"]) == ({"size": 4}, found["metadata"]["uid"])
    new: dict[str, Any] = {"apiVersion": f"{SMALL.group}/v1", "kind": "G1", "metadata": {"name": "new", "namespace": "default"}}
    await client.create(name, resource(SMALL, 1), new)
    assert len((await client.list(name, resource(SMALL, 1))).items) == 3
    await client.delete(name, CLUSTERS, "", "cluster")
    async with asyncio.timeout(30):
        while await stored(plane.storage, "copied"):
            await asyncio.sleep(0.01)


async def test_an_interrupted_seeding_is_continued(plane: Plane) -> None:
    """The store says how many copies there are; each is made once."""
    await create(plane, TEMPLATE, SMALL)
    storage, template = plane.storage, await read_template(plane.storage, TEMPLATE)
    told: list[int] = []
    assert await copy_clusters(storage, template, 130, progress=told.append, deadline=0) == 0
    assert await copy_clusters(storage, template, 70, progress=told.append, deadline=float("inf")) == 70
    first = await storage.get(f"/registry/core.kcp.io/logicalclusters/{cluster_name(0)}/cluster")
    assert await copy_clusters(storage, template, 130, progress=told.append, deadline=float("inf")) == 130
    assert await seeded(storage, 1_000) == 130
    assert told[-1] == 130
    assert await storage.get(f"/registry/core.kcp.io/logicalclusters/{cluster_name(0)}/cluster") == first
    found = await storage.range("/registry/core.kcp.io/logicalclusters/f0", limit=1, keys_only=True, count=True)
    assert found.total == 130
