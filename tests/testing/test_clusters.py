"""The objects of a cluster of a test: manifests, resources by name, waiting."""

from __future__ import annotations

import asyncio
import json

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.testing import control_plane
from kcp_py.testing.clusters import read_objects

pytestmark = pytest.mark.anyio
SHIP_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.fleet.example.com"},
    "spec": {
        "group": "fleet.example.com",
        "scope": "Cluster",
        "names": {"plural": "ships", "singular": "ship", "kind": "Ship"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
SHIP = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "ark"}}
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "1"}}


@pytest.fixture
async def cluster():
    async with control_plane() as server:
        yield await server.new_cluster()


async def test_a_directory_is_applied_definitions_first(cluster, tmp_path):
    """Objects may sort before their definition; lists and empty documents are read, files with other suffixes are not."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.yaml").write_text("---\n---\napiVersion: fleet.example.com/v1\nkind: Ship\nmetadata: {name: ark}\n")
    (tmp_path / "sub" / "z.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [SHIP_CRD]}))
    (tmp_path / "notes.txt").write_text("kind: [")
    assert [obj["kind"] for obj in await cluster.apply(tmp_path, CONFIGMAP)] == ["CustomResourceDefinition", "Ship", "ConfigMap"]
    assert (await cluster.get("ships.fleet.example.com", "ark"))["metadata"]["name"] == "ark"
    assert (await cluster.get("configmaps", "a"))["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [("kind: [", "while parsing"), ("just text", "an object needs a kind"), ("[1]", "an object needs a kind"), ("\xff", "can't decode")],
)
async def test_what_is_no_manifest_is_refused(tmp_path, text, message):
    """With the name of the file."""
    path = tmp_path / "bad.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message) as refused:
        read_objects(path)
    assert str(path) in str(refused.value)


async def test_what_is_not_served_is_named(cluster):
    """A kind and a resource without their definition."""
    with pytest.raises(ValueError, match="does not serve the kind 'Ship'"):
        await cluster.apply(SHIP)
    with pytest.raises(ValueError, match=r"does not serve 'ships\.fleet\.example\.com'"):
        await cluster.list("ships.fleet.example.com")


async def test_waiting_sees_each_state_and_ends(cluster):
    """An object that does not exist yet, a field that it does not have yet, a deletion, and the error with the last state."""
    waiting = asyncio.ensure_future(cluster.wait_for("configmaps", "a", lambda obj: obj["data"]["n"] == "2"))
    await cluster.apply({**CONFIGMAP, "data": {}})
    await cluster.apply(CONFIGMAP)
    await cluster.apply({**CONFIGMAP, "data": {"n": "2"}})
    assert (await waiting)["data"] == {"n": "2"}
    with pytest.raises(TimeoutError, match=r"last state: .*'n': '2'"):
        await cluster.wait_for("configmaps", "a", lambda _: False, timeout=0)
    with pytest.raises(TimeoutError, match="it does not exist"):
        await cluster.wait_for("configmaps", "b", lambda _: True, timeout=0)
    gone = asyncio.ensure_future(cluster.wait_gone("configmaps", "a"))
    await cluster.delete("configmaps", "a")
    await gone
    await cluster.wait_gone("configmaps", "a")
    with pytest.raises(StatusError):
        await cluster.delete("configmaps", "a")


async def test_an_exception_of_a_condition_comes_out(cluster):
    """Only what a missing field raises means not yet."""
    await cluster.apply(CONFIGMAP)
    with pytest.raises(ZeroDivisionError):
        await cluster.wait_for("configmaps", "a", lambda _: 1 / 0)


async def test_the_content_of_a_new_cluster():
    """A copy of a cluster or of a snapshot; a restored definition is served."""
    async with control_plane() as server:
        template = await server.new_cluster("template")
        await template.apply(SHIP_CRD, SHIP)
        saved = await template.save()
        for content in (template, saved):
            cluster = await server.new_cluster(content=content)
            assert [ship["metadata"]["name"] for ship in await cluster.list("ships.fleet.example.com")] == ["ark"]
        await template.delete("ships.fleet.example.com", "ark")
        assert (await template.restore(saved)).written == 1
        assert [ship["metadata"]["name"] for ship in await template.list("ships.fleet.example.com")] == ["ark"]


@pytest.mark.parametrize("resource", ["cm", "configmap", "ConfigMap", "configmaps.v1."])
async def test_resources_have_the_names_that_kubectl_takes(cluster, resource):
    """A short name, a singular, a kind, a name with its version."""
    await cluster.apply(CONFIGMAP)
    assert (await cluster.get(resource, "a"))["data"] == {"n": "1"}
    await cluster.delete(resource, "a")
    await cluster.wait_gone(resource, "a")
