"""Tenants try every verb, address, identity and parameter against each other; no answer and no object crosses."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.authz.canaries import CRDS, HOST, Attack, Tenant, attack
from tests.authz.conftest import GROUP as RBAC_GROUP
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

TENANTS: Final = 30
ATTACKS: Final = int(os.environ.get("KCP_PY_TEST_ATTACKS", "3000"))
SEED: Final = 7
RESOURCES: Final = (
    "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts", "/api/v1/namespaces", f"/apis/{RBAC_GROUP}/v1/clusterroles",
    f"/apis/{RBAC_GROUP}/v1/clusterrolebindings", f"/apis/{RBAC_GROUP}/v1/roles", "/apis/coordination.k8s.io/v1/leases", CRDS,
    "/apis/core.kcp.io/v1alpha1/logicalclusters",
)  # fmt: skip


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a server with a user for each tenant, and host names of clusters."""
    users = tmp_path / "users.csv"
    users.write_text("".join(f"keeper-{number},keeper-{number},{number},keepers\n" for number in range(TENANTS)))
    settings = dataclasses.replace(
        options(tmp_path, token_auth_file=users), external_hostname=HOST, cluster_hostnames=True, controllers=("*", "-garbagecollector")
    )
    async with (
        ControlPlane(settings) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url=f"https://{HOST}") as client,
    ):
        yield Api(client, control_plane)


def stored(listed: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    """Objects of a wildcard list by cluster, namespace and name."""
    found = {}
    for item in listed["items"]:
        metadata = item["metadata"]
        found[metadata["annotations"]["kcp.io/cluster"], metadata.get("namespace", ""), metadata["name"]] = item
    return found


async def everything(api: Api, tenants: list[Tenant]) -> dict[str, dict[tuple[str, str, str], Any]]:
    """All objects of all clusters, by resource."""
    paths = [*RESOURCES, *(f"/apis/{tenant.group}/v1/birds" for tenant in tenants)]
    answers = {path: await api("GET", f"/clusters/*{path}") for path in paths}
    return {path: stored(answer.json()) for path, answer in answers.items() if answer.status_code == 200}


async def send(api: Api, one: Attack) -> httpx.Response:
    """Send a request as it is written: httpx would normalise dot segments."""
    url = httpx.URL(one.url if one.url.startswith("https://") else f"https://{HOST}{one.url}")
    raw = one.url if one.url.startswith("/") else "/" + one.url.removeprefix("https://").partition("/")[2]
    request = api._client.build_request(one.method, url, headers=[*one.headers], content=one.body)
    request.url = RawURL(url, raw.encode())
    return await api._client.send(request)


class RawURL(httpx.URL):
    """A URL whose target is sent byte for byte."""

    def __init__(self, url: httpx.URL, target: bytes) -> None:
        super().__init__(url)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target


async def test_no_marker_and_no_write_crosses(api: Api) -> None:
    """Thirty tenants, thousands of requests; `KCP_PY_TEST_ATTACKS` sets how many."""
    random = Random(SEED)
    tenants = [Tenant(number, f"m-{UUID(int=random.getrandbits(128)).hex}") for number in range(TENANTS)]
    for tenant in tenants:
        await tenant.settle(api)
    before = await everything(api, tenants)
    assert len(before) == len(RESOURCES) + len(tenants)
    assert all(any(tenant.marker in json.dumps(item) for item in before["/api/v1/secrets"].values()) for tenant in tenants)
    borrowed: dict[int, list[str]] = {}
    codes: dict[int, int] = {}
    for _ in range(ATTACKS):
        attacker, victim = random.sample(tenants, 2)
        one = attack(random, attacker, victim, borrowed.get(attacker.number, ()))
        response = await send(api, one)
        codes[response.status_code] = codes.get(response.status_code, 0) + 1
        assert response.status_code < 500 or response.status_code == 501, (one, response.text)
        shown = response.content + repr(response.headers.raw).encode()
        for other in tenants:
            if other is not attacker:
                assert not any(mark in shown for mark in other.marks()), (one, response.status_code, response.text[:2000])
        if response.status_code == 200 and b'"continue":"' in response.content:
            borrowed.setdefault(attacker.number, []).append(response.json()["metadata"]["continue"])
    # The requests met all layers, not one refusal at the door.
    assert {200, 400, 401, 403, 404} <= set(codes), codes
    after = await everything(api, tenants)
    assert after.keys() == before.keys()
    for path, objects in after.items():
        assert objects == before[path], path
    metrics = (await api("GET", "/metrics")).text
    assert not any(tenant.marker in metrics for tenant in tenants)
