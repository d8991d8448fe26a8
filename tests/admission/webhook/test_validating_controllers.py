"""Webhooks and the server's own controllers: they obey webhooks, and a webhook that hangs delays them in its cluster alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.admission.webhook.conftest import Hooks, config_map, configure
from tests.server.handlers.conftest import Api, Watch, options

pytestmark = pytest.mark.anyio
DELETE = [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
DENIED = {"allowed": False, "status": {"message": "no", "code": 403, "reason": "Forbidden"}}
TIMEOUT = 60


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane that calls webhooks of this machine, and empties namespaces at once."""
    async with AsyncExitStack() as stack:
        given = options(tmp_path, webhook_networks=("127.0.0.0/8",), namespace_deletion_grace=0.0)
        control_plane = await stack.enter_async_context(ControlPlane(given))
        transport = httpx.ASGITransport(control_plane.app)
        yield Api(await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="https://kcp.test")), control_plane)


def core(cluster: str, rest: str) -> str:
    return f"/clusters/{cluster}/api/v1/{rest}"


async def event_of(watch: Watch) -> dict[str, Any]:
    event = await watch.next()
    assert event is not None
    return event


async def gone(api: Api, cluster: str, collection: str, name: str) -> None:
    """Return once an object is deleted."""
    async with asyncio.timeout(TIMEOUT), Watch(api, core(cluster, collection), fieldSelector=f"metadata.name={name}") as watch:
        while (await event_of(watch))["type"] != "DELETED":
            pass


async def fill(api: Api, cluster: str, namespace: str, count: int) -> None:
    """A namespace with config maps, and a dependent in `default` of an owner there."""
    await api.ok("POST", core(cluster, "namespaces"), {"metadata": {"name": namespace}})
    for number in range(count):
        await api.ok("POST", core(cluster, f"namespaces/{namespace}/configmaps"), config_map(f"m{number}"))


async def owned(api: Api, cluster: str, number: int) -> None:
    """A secret that owns a config map."""
    owner = await api.ok("POST", core(cluster, "namespaces/default/secrets"), {"metadata": {"name": f"owner-{number}"}})
    reference = {"apiVersion": "v1", "kind": "Secret", "name": f"owner-{number}", "uid": owner["metadata"]["uid"]}
    dependent: dict[str, Any] = {**config_map(), "metadata": {"name": f"dependent-{number}", "ownerReferences": [reference]}}
    await api.ok("POST", core(cluster, "namespaces/default/configmaps"), dependent)


async def test_hanging_webhooks_delay_controllers_in_their_clusters_alone(api: Api, hooks: Hooks) -> None:
    """Content of namespaces and garbage of another cluster go while deletions in several clusters wait for a webhook."""
    hooks.blocked["/x"] = asyncio.Event()
    clusters = [f"hanging-{number}" for number in range(6)]
    for cluster in clusters:
        await configure(api, "validating", hooks.webhook("/x", rules=DELETE), cluster=cluster)
        for namespace in ("one", "two"):
            await fill(api, cluster, namespace, 1)
        for number in range(8):
            await owned(api, cluster, number)
    await fill(api, "quick", "one", 3)
    await owned(api, "quick", 0)
    for cluster in clusters:
        for namespace in ("one", "two"):
            await api.ok("DELETE", core(cluster, f"namespaces/{namespace}"))
        for number in range(8):
            await api.ok("DELETE", core(cluster, f"namespaces/default/secrets/owner-{number}"))
    controllers = {"namespace-controller", "generic-garbage-collector"}
    async with asyncio.timeout(TIMEOUT):
        while {asked["userInfo"]["username"].rpartition(":")[2] for asked in hooks.asked()} != controllers:
            await asyncio.sleep(0)
    ended = [asyncio.ensure_future(gone(api, "quick", *what)) for what in (("namespaces", "one"), ("configmaps", "dependent-0"))]
    await api.ok("DELETE", core("quick", "namespaces/one"))
    await api.ok("DELETE", core("quick", "namespaces/default/secrets/owner-0"))
    await asyncio.gather(*ended)
    # All this while no call of the other clusters has failed.
    for cluster in clusters:
        waiting = await api.ok("GET", core(cluster, "namespaces/one"))
        assert not [one for one in waiting["status"].get("conditions", ()) if one["status"] == "True"]
    hooks.blocked["/x"].set()


async def test_refusals(api: Api, hooks: Hooks) -> None:
    """What a webhook keeps stays, and its namespace says why; it goes once the webhook lets it go."""
    await configure(api, "validating", hooks.webhook("/x", rules=DELETE))
    hooks.answers["/x"] = DENIED
    await fill(api, "a", "one", 1)
    async with asyncio.timeout(TIMEOUT), Watch(api, core("a", "namespaces"), fieldSelector="metadata.name=one") as watch:
        await api.ok("DELETE", core("a", "namespaces/one"))
        while True:
            obj = (await event_of(watch))["object"]
            found = {one["type"]: one for one in obj["status"].get("conditions", ())}
            if (failure := found.get("NamespaceDeletionContentFailure", {})).get("status") == "True":
                break
        assert failure["reason"] == "ContentDeletionFailed"
        assert 'admission webhook "x.example.com" denied the request: no' in failure["message"]
    (asked, *_) = (one for one in hooks.asked("/x") if one["namespace"] == "one")
    assert asked["userInfo"]["username"] == "system:serviceaccount:kube-system:namespace-controller"
    assert asked["operation"] == "DELETE"
    ended = asyncio.ensure_future(gone(api, "a", "namespaces", "one"))
    await asyncio.sleep(0)
    hooks.answers.clear()
    await ended
