"""Tenants try every verb, address, identity and parameter against each other; no answer and no object crosses."""

from __future__ import annotations

import asyncio
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
from tests.authz.canaries import CRDS, HOST, Attack, Caller, Tenant, attack
from tests.authz.conftest import GROUP as RBAC_GROUP
from tests.authz.conftest import rule
from tests.authz.grants.conftest import GRANTS, grant
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

TENANTS: Final = 30
ATTACKS: Final = int(os.environ.get("KCP_PY_TEST_ATTACKS", "2000"))
SEED: Final = 7
AT_ONCE: Final = 30
GRANTED: Final = frozenset((0, 1, 2))
"""Tenants whose clusters two callers may read by a grant: the user `grantee`, and the service account of the tenant 0."""
RESOURCES: Final = (
    "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts", "/api/v1/namespaces", f"/apis/{RBAC_GROUP}/v1/clusterroles",
    f"/apis/{RBAC_GROUP}/v1/clusterrolebindings", f"/apis/{RBAC_GROUP}/v1/roles", "/apis/coordination.k8s.io/v1/leases", CRDS,
    "/apis/core.kcp.io/v1alpha1/logicalclusters",
)  # fmt: skip


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a server with a user for each tenant, and host names of clusters."""
    users = tmp_path / "users.csv"
    users.write_text("".join(f"{user},{user},{user},users\n" for user in ("grantee", *(f"keeper-{number}" for number in range(TENANTS)))))
    settings = dataclasses.replace(
        options(tmp_path, token_auth_file=users),
        external_hostname=HOST,
        cluster_hostnames=True,
        controllers=("*", "-garbage-collector-controller"),
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


async def callers_of(api: Api, tenants: list[Tenant]) -> list[Caller]:
    """Users and service accounts of all tenants, and as many times two callers who may read some clusters by a grant."""
    account = {"kind": "ServiceAccount", "namespace": "default", "name": "known", "cluster": tenants[0].cluster}
    subjects = ({"kind": "User", "name": "grantee"}, account)
    names = {"names": [tenants[number].cluster for number in sorted(GRANTED)]}
    rules = [rule("get list watch", "*", groups=group) for group in ("-", "*")]
    await api.ok("POST", GRANTS, grant("some", names, *rules, subjects=subjects))
    found = []
    for tenant in tenants:
        own = frozenset((tenant.number,))
        found.append(Caller(tenant.user, tenant, own))
        token = await tenant.token(api)
        if tenant.number:
            found += [Caller(token, tenant, own, account=True), Caller("grantee", tenants[1], GRANTED, everywhere=True)]
        else:
            found += [Caller(token, tenant, GRANTED, account=True, everywhere=True)] * len(tenants)
    return found


async def test_no_marker_and_no_write_crosses(api: Api) -> None:
    """Thirty tenants, thousands of requests; `KCP_PY_TEST_ATTACKS` sets how many."""
    random = Random(SEED)
    tenants = [Tenant(number, f"m-{UUID(int=random.getrandbits(128)).hex}") for number in range(TENANTS)]
    for tenant in tenants:
        await tenant.settle(api)
    callers = await callers_of(api, tenants)
    before = await everything(api, tenants)
    assert len(before) == len(RESOURCES) + len(tenants)
    assert all(any(tenant.marker in json.dumps(item) for item in before["/api/v1/secrets"].values()) for tenant in tenants)
    borrowed: dict[str, list[str]] = {}
    codes: dict[int, int] = {}
    seen: dict[str, set[int]] = {}

    def check(caller: Caller, one: Attack, response: httpx.Response) -> None:
        codes[response.status_code] = codes.get(response.status_code, 0) + 1
        assert response.status_code < 500 or response.status_code == 501, (one, response.text)
        shown = response.content + repr(response.headers.raw).encode()
        for other in tenants:
            if any(mark in shown for mark in other.marks()):
                assert other.number in caller.sees, (one, response.status_code, response.text[:2000])
                seen.setdefault(caller.token, set()).add(other.number)
        if response.status_code == 200 and b'"continue":"' in response.content:
            borrowed.setdefault(caller.token, []).append(response.json()["metadata"]["continue"])

    for _ in range(ATTACKS // AT_ONCE):
        chosen = [(random.choice(callers), random.choice(tenants)) for _ in range(AT_ONCE)]
        attacks = [(caller, attack(random, caller, victim, borrowed.get(caller.token, ()))) for caller, victim in chosen]
        answers = await asyncio.gather(*(send(api, one) for _, one in attacks))
        for (caller, one), response in zip(attacks, answers, strict=True):
            check(caller, one, response)
    # The requests met all layers, not one refusal at the door. Grantees saw what they may see.
    assert {200, 400, 401, 403, 404} <= set(codes), codes
    assert {caller.token for caller in callers if caller.everywhere} <= seen.keys()
    assert seen["grantee"] == GRANTED
    assert any(caller.account and not caller.everywhere and caller.token in seen for caller in callers)
    after = await everything(api, tenants)
    assert after.keys() == before.keys()
    for path, objects in after.items():
        assert objects == before[path], path
    metrics = (await api("GET", "/metrics")).text
    assert not any(tenant.marker in metrics for tenant in tenants)
