"""lightkube: typed resources, generic ones of its own and as it reads them from the CRDs of the cluster; waiting and server-side apply."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import create_definition, definition

lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed")
generic = pytest.importorskip("lightkube.generic_resource", reason="lightkube is not installed")
codecs = pytest.importorskip("lightkube.codecs", reason="lightkube is not installed")

pytestmark = [
    pytest.mark.compatibility(
        "lightkube",
        version("lightkube"),
        "typed and generic resources, read from the cluster's CRDs: create, get, replace, patch, apply, list, watch, wait, delete",
    ),
]
CLUSTER = "py-lightkube"
GROUP = "light.example.com"


@pytest.fixture
def config(server: ServerProcess) -> Any:
    """The way to one cluster."""
    return lightkube.KubeConfig.from_dict(
        {
            "current-context": "e2e",
            "clusters": [
                {"name": "e2e", "cluster": {"server": f"{server.url}/clusters/{CLUSTER}", "certificate-authority": str(server.ca_file)}}
            ],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin", "namespace": "default"}}],
            "users": [{"name": "admin", "user": {"token": server.token}}],
        }
    )


@pytest.fixture
def client(config: Any) -> Iterator[Any]:
    """The client of one cluster."""
    made = lightkube.Client(config=config, field_manager="e2e")
    yield made
    made.close()


def test_typed_resources(client: Any) -> None:
    """A config map goes through every verb, and a watch from its first version shows each change."""
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import PatchType

    made = client.create(ConfigMap(metadata=ObjectMeta(name="one", labels={"of": "e2e"}), data={"n": "1"}))
    replaced = client.get(ConfigMap, "one")
    replaced.data["n"] = "2"
    client.replace(replaced)
    client.patch(ConfigMap, "one", {"data": {"strategic": "3"}})
    client.patch(ConfigMap, "one", {"data": {"merge": "4"}}, patch_type=PatchType.MERGE)
    client.patch(ConfigMap, "one", [{"op": "add", "path": "/data/json", "value": "5"}], patch_type=PatchType.JSON)
    client.apply(ConfigMap(metadata=ObjectMeta(name="one"), data={"apply": "6"}))
    wanted = {"n": "2", "strategic": "3", "merge": "4", "json": "5", "apply": "6"}
    assert [item.data for item in client.list(ConfigMap, labels={"of": "e2e"}, fields={"metadata.name": "one"})] == [wanted]
    client.delete(ConfigMap, "one")
    seen = []
    for kind, item in client.watch(ConfigMap, resource_version=made.metadata.resourceVersion, server_timeout=60):
        if item.metadata.name == "one":
            seen.append(kind)
        if kind == "DELETED":
            break
    assert seen == ["MODIFIED"] * 5 + ["DELETED"]
    with pytest.raises(lightkube.ApiError) as caught:
        client.get(ConfigMap, "one")
    assert caught.value.status.code == 404
    assert [item.metadata.name for item in client.list(ConfigMap, chunk_size=1, labels={"of": "e2e"})] == []


def test_generic_resources(client: Any, server: ServerProcess) -> None:
    """The cluster's CRDs become classes, which manifests are read as; a condition is waited for, a status and a definition too."""
    from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
    from lightkube.types import PatchType

    create_definition(server, CLUSTER, definition(GROUP, "things", "Thing", {"n": {"type": "integer"}, "m": {"type": "string"}}))
    crd = client.wait(CustomResourceDefinition, f"things.{GROUP}", for_conditions=["Established"])
    assert crd.status.acceptedNames.plural == "things"
    generic.load_in_cluster_generic_resources(client)
    thing = generic.get_generic_resource(f"{GROUP}/v1", "Thing")
    assert thing is not None
    (one,) = codecs.load_all_yaml(f"apiVersion: {GROUP}/v1\nkind: Thing\nmetadata:\n  name: one\n  namespace: default\nspec:\n  n: 1\n")
    assert isinstance(one, thing)
    made = client.create(one)
    client.apply(thing(metadata={"name": "one"}, spec={"m": "x"}))
    assert client.get(thing, "one").spec == {"n": 1, "m": "x"}
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    client.patch(thing.Status, "one", ready, patch_type=PatchType.MERGE)
    waited = client.wait(thing, "one", for_conditions=["Ready"])
    assert waited.status["conditions"][0]["type"] == "Ready"
    with pytest.raises(lightkube.ApiError) as caught:
        client.patch(thing, "one", {"spec": {"n": "text"}}, patch_type=PatchType.MERGE)
    assert caught.value.status.reason == "Invalid"
    with pytest.raises(lightkube.ApiError) as caught:
        client.patch(thing, "one", {"spec": {"n": 2}}, patch_type=PatchType.STRATEGIC)
    assert caught.value.status.code == 415
    client.delete(thing, "one")
    events = client.watch(thing, resource_version=made.metadata.resourceVersion, server_timeout=60)
    assert [next(events)[0] for _ in range(3)] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert list(client.list(thing)) == []


@pytest.mark.anyio
async def test_async_client(config: Any) -> None:
    """The client for asyncio does the same."""
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap

    client = lightkube.AsyncClient(config=config, field_manager="e2e")
    made = await client.create(ConfigMap(metadata=ObjectMeta(name="async"), data={"n": "1"}))
    await client.patch(ConfigMap, "async", {"data": {"n": "2"}})
    assert [item.data async for item in client.list(ConfigMap, fields={"metadata.name": "async"})] == [{"n": "2"}]
    await client.delete(ConfigMap, "async")
    seen = []
    async for kind, item in client.watch(ConfigMap, resource_version=made.metadata.resourceVersion, server_timeout=60):
        seen += [kind] if item.metadata.name == "async" else []
        if seen[-1:] == ["DELETED"]:
            break
    assert seen == ["MODIFIED", "DELETED"]
    await client.aclose()
