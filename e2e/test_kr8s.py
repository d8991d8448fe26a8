"""kr8s, an asyncio client that looks up by discovery what it is asked for: config maps and custom objects of a logical cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import create_definition, definition

kr8s = pytest.importorskip("kr8s", reason="kr8s is not installed")
pytest.importorskip("kr8s.asyncio.objects", reason="kr8s is not installed")

# The library has been tried with Kubernetes of its own day only, and says so.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning"),
    pytest.mark.compatibility(
        "kr8s",
        version("kr8s"),
        "built-in and custom objects, by class and by discovery: create, exists, get, patch, label, watch, delete; api_resources, whoami",
    ),
]


@pytest.fixture
async def api(server: ServerProcess) -> AsyncIterator[Any]:
    """kr8s with the server's kubeconfig, sent to one cluster."""
    made = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig), url=f"{server.url}/clusters/kr8s", namespace="default")
    yield made
    await made._session.aclose()


async def events_of(api: Any, kind: Any, since: str, until: str) -> list[tuple[str, str]]:
    """Types and names of what a watch tells after a version, up to the first event of a type."""
    events = []
    watch = api.async_watch(kind, namespace="default", label_selector="of=e2e", since=since)
    async for kind_of_event, item in watch:
        events.append((kind_of_event, item.name))
        if kind_of_event == until:
            break
    await watch.aclose()
    return events


async def lifecycle(api: Any, one: Any, kind: Any, change: dict[str, Any]) -> None:
    """Create, list, patch, label, watch and delete one object; kr8s keeps what the server answered."""
    await one.create()
    made = one.metadata.resourceVersion
    assert await one.exists()
    await one.patch(change)
    after = {key: one.raw.to_dict()[key] for key in change}
    await one.patch([{"op": "add", "path": "/metadata/labels/more", "value": "yes"}], type="json")
    assert one.labels.to_dict() == {"of": "e2e", "more": "yes"}
    for selector in ({"label_selector": "more=yes"}, {"field_selector": f"metadata.name={one.name}"}):
        listed = [item async for item in api.get(kind, namespace="default", **selector)]
        assert [({key: item.raw.to_dict()[key] for key in change}, item.metadata.uid) for item in listed] == [(after, one.metadata.uid)]
    named = [item async for item in api.get(kind, one.name, namespace="default")]
    assert [item.metadata.resourceVersion for item in named] == [one.metadata.resourceVersion]
    await one.delete()
    assert await events_of(api, kind, made, "DELETED") == [("MODIFIED", one.name), ("MODIFIED", one.name), ("DELETED", one.name)]
    assert not await one.exists()
    with pytest.raises(kr8s.NotFoundError):
        await one.refresh()


async def test_config_maps(api: Any) -> None:
    """A config map is created, found, patched in two ways, watched and deleted."""
    body = {"metadata": {"name": "one", "namespace": "default", "labels": {"of": "e2e"}}, "data": {"n": "1"}}
    one = await kr8s.asyncio.objects.ConfigMap(body, api=api)
    await lifecycle(api, one, "configmaps", {"data": {"n": "2"}})


async def test_custom_objects(api: Any, server: ServerProcess) -> None:
    """Objects of a CRD do all that, by a class of the test's own and by the resource that discovery tells."""
    create_definition(server, "kr8s", definition("kr8s.example.com", "things", "Thing", {"n": {"type": "integer"}}))
    thing = kr8s.asyncio.objects.new_class(kind="Thing", version="kr8s.example.com/v1", namespaced=True, plural="things")
    body = {"metadata": {"name": "one", "namespace": "default", "labels": {"of": "e2e"}}, "spec": {"n": 1}}
    for kind in (thing, "things.kr8s.example.com"):
        one = await thing(body, api=api)
        await lifecycle(api, one, kind, {"spec": {"n": 2}})
    one = await thing({**body, "spec": {"n": "text"}}, api=api)
    with pytest.raises(kr8s.ServerError, match="must be of type integer"):
        await one.create()


async def test_discovery_and_identity(api: Any) -> None:
    """kr8s finds the kinds of the cluster and who it is."""
    assert ("ConfigMap", "v1") in {(item["kind"], item["version"]) for item in await api.api_resources()}
    assert await api.whoami() == "kcp-admin"
