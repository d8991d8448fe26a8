"""kubernetes_asyncio: typed calls, custom objects, its watch, and its dynamic client, which discovers what the cluster serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import create_definition, definition

client = pytest.importorskip("kubernetes_asyncio.client", reason="kubernetes_asyncio is not installed")
watches = pytest.importorskip("kubernetes_asyncio.watch", reason="kubernetes_asyncio is not installed")
dynamic = pytest.importorskip("kubernetes_asyncio.dynamic", reason="kubernetes_asyncio is not installed")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.compatibility(
        "kubernetes_asyncio",
        version("kubernetes_asyncio"),
        "typed, custom and dynamic objects: create, read, replace, patch, apply, list, watch, delete; discovery",
    ),
]
GROUP = "aio.example.com"


@pytest.fixture
async def api(server: ServerProcess) -> AsyncIterator[Any]:
    """The client of one cluster."""
    configuration = client.Configuration(host=f"{server.url}/clusters/py-asyncio", api_key={"BearerToken": f"Bearer {server.token}"})
    configuration.ssl_ca_cert = str(server.ca_file)
    async with client.ApiClient(configuration) as made:
        yield made


async def events_of(call: Any, *arguments: Any, until: str = "DELETED", **options: Any) -> list[str]:
    """Types of the events up to the first of a type."""
    seen = []
    async with watches.Watch().stream(call, *arguments, timeout_seconds=60, **options) as stream:
        async for event in stream:
            seen.append(event["type"])
            if event["type"] == until:
                break
    return seen


async def test_typed_calls_and_watch(api: Any) -> None:
    """A config map is created, read, replaced, patched, listed and deleted, and a watch resumes from its first version."""
    core = client.CoreV1Api(api)
    made = await core.create_namespaced_config_map("default", {"metadata": {"name": "one"}, "data": {"n": "1"}})
    first = made.metadata.resource_version
    assert (await core.read_namespaced_config_map("one", "default")).data == {"n": "1"}
    made.data = {"n": "2"}
    await core.replace_namespaced_config_map("one", "default", made)
    await core.patch_namespaced_config_map("one", "default", {"data": {"m": "3"}})
    operations = [{"op": "add", "path": "/data/j", "value": "4"}]
    await core.patch_namespaced_config_map("one", "default", operations, _content_type="application/json-patch+json")
    listed = await core.list_namespaced_config_map("default", field_selector="metadata.name=one")
    assert [item.data for item in listed.items] == [{"n": "2", "m": "3", "j": "4"}]
    with pytest.raises(client.ApiException) as caught:
        await core.replace_namespaced_config_map("one", "default", made)
    assert caught.value.status == 409
    await core.delete_namespaced_config_map("one", "default")
    events = await events_of(core.list_namespaced_config_map, "default", resource_version=first)
    assert events == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    with pytest.raises(client.ApiException) as caught:
        await core.read_namespaced_config_map("one", "default")
    assert caught.value.status == 404


async def test_custom_and_dynamic_objects(api: Any, server: ServerProcess, tmp_path: Path) -> None:
    """Objects of a CRD are handled as custom objects, and by the dynamic client, which finds their kind by discovery."""
    create_definition(server, "py-asyncio", definition(GROUP, "things", "Thing", {"n": {"type": "integer"}, "m": {"type": "string"}}))
    custom = client.CustomObjectsApi(api)
    where = (GROUP, "v1", "default", "things")
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"n": 1}}
    made = await custom.create_namespaced_custom_object(*where, thing)
    patched = await custom.patch_namespaced_custom_object(*where, "one", {"spec": {"n": 2}}, _content_type="application/merge-patch+json")
    assert patched["spec"] == {"n": 2}
    assert [item["spec"] for item in (await custom.list_namespaced_custom_object(*where))["items"]] == [{"n": 2}]
    await custom.patch_namespaced_custom_object_status(
        *where, "one", {"status": {"phase": "Ready"}}, _content_type="application/merge-patch+json"
    )
    await custom.delete_namespaced_custom_object(*where, "one")
    since = made["metadata"]["resourceVersion"]
    events = await events_of(custom.list_namespaced_custom_object, *where, resource_version=since)
    assert events == ["MODIFIED", "MODIFIED", "DELETED"]

    discovering = await dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    things = await discovering.resources.get(api_version=f"{GROUP}/v1", kind="Thing")
    assert (things.name, things.namespaced) == ("things", True)
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "two"}, "spec": {"n": 1}}
    await things.create(body=body, namespace="default")
    applied = await things.server_side_apply(
        body={**body, "spec": {"m": "x"}}, name="two", namespace="default", field_manager="e2e", force_conflicts=True
    )
    assert applied.spec.to_dict() == {"n": 1, "m": "x"}
    read = await things.get(name="two", namespace="default")
    assert read.metadata.resourceVersion == applied.metadata.resourceVersion
    assert [item.metadata.name for item in (await things.get(namespace="default")).items] == ["two"]
    # This client returns the error instead of raising it.
    missing = await things.get(name="none", namespace="default")
    assert (missing.kind, missing.code, missing.reason) == ("Status", 404, "NotFound")
    await things.delete(name="two", namespace="default")
