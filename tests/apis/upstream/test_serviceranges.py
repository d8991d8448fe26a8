"""Addresses and ports of services: races, clusters, releases, restarts, and ranges that are full."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio

RANGE, PORTS = "10.7.0.0/28", "30000-30003"
USABLE = 13
"""Addresses of the range but its first, its last and that of the service `kubernetes`."""


@asynccontextmanager
async def serving(directory: Path, **given: Any) -> AsyncIterator[Api]:
    """A server with services in every cluster."""
    settings: dict[str, Any] = {"service_cluster_ip_range": (RANGE,), "service_node_port_range": PORTS, "builtin_kinds": ("services",)}
    async with (
        ControlPlane(replace(options(directory, **settings), **given)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


def services(cluster: str = "a", namespace: str = "default") -> str:
    return f"/clusters/{cluster}/api/v1/namespaces/{namespace}/services"


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}], **spec}}


async def addresses(api: Api, cluster: str = "a") -> list[str]:
    found = await api.ok("GET", f"/clusters/{cluster}/api/v1/services")
    return [item["spec"]["clusterIP"] for item in found["items"] if item["spec"].get("clusterIP")]


async def claim_revisions(api: Api) -> dict[str, int]:
    page = await api.control_plane.backend.access.storage.range("/registry/.kcp-py/service-claims/")
    return {item.key.rpartition("/")[2]: item.mod_revision for item in page.items}


async def claims(api: Api) -> set[str]:
    return {*await claim_revisions(api)}


async def test_no_address_is_given_twice(tmp_path: Path) -> None:
    """Of 40 services that are created at the same time, as many get an address as there are."""
    async with serving(tmp_path) as api:
        answers = await asyncio.gather(*(api("POST", services(), service(f"s{number}")) for number in range(40)))
        codes = [answer.status_code for answer in answers]
        assert sorted(codes) == [201] * USABLE + [500] * (40 - USABLE)
        refused = next(answer for answer in answers if answer.status_code == 500)
        assert refused.json()["message"].endswith('": range is full')
        found = await addresses(api)
        assert len(found) == len(set(found)) == USABLE + 1
        assert all(ipaddress.ip_address(one) in ipaddress.ip_network(RANGE) for one in found)
        # Every other cluster has the whole range.
        assert (await api("POST", services("b"), service("s"))).status_code == 201


async def test_a_requested_address_has_one_winner(tmp_path: Path) -> None:
    """The others are refused in upstream's words."""
    async with serving(tmp_path) as api:
        bodies = [service(f"s{number}", clusterIP="10.7.0.9") for number in range(8)]
        answers = await asyncio.gather(*(api("POST", services(), body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [201] + [422] * 7
        refused = next(answer for answer in answers if answer.status_code == 422)
        assert "failed to allocate IP 10.7.0.9: provided IP is already allocated" in refused.json()["message"]


async def test_ports_of_nodes_are_unique_in_their_cluster(tmp_path: Path) -> None:
    """In each cluster by itself, and the refusal names the end of the range."""
    async with serving(tmp_path) as api:
        answers = await asyncio.gather(*(api("POST", services(), service(f"s{number}", type="NodePort")) for number in range(6)))
        assert sorted(answer.status_code for answer in answers) == [201] * 4 + [500] * 2
        ports = [answer.json()["spec"]["ports"][0]["nodePort"] for answer in answers if answer.status_code == 201]
        assert sorted(ports) == [30000, 30001, 30002, 30003]
        other = await api.ok("POST", services("b"), service("s", type="NodePort"))
        assert other["spec"]["ports"][0]["nodePort"] in ports


async def test_what_a_service_had_is_free_again(tmp_path: Path) -> None:
    """After its deletion, that of a collection, of its namespace's content, and of its cluster."""
    async with serving(tmp_path) as api:
        await api.ok("POST", services(), service("one", type="NodePort"))
        await api.ok("POST", services(), service("two", type="LoadBalancer", externalTrafficPolicy="Local"))
        assert len(await claims(api)) == 5
        await api.ok("DELETE", f"{services()}/one")
        assert len(await claims(api)) == 3
        await api.ok("DELETE", services())
        assert await claims(api) == set()
        await api.ok("POST", services("b"), service("one"))
        await api.ok("DELETE", "/clusters/b/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        async with asyncio.timeout(30):
            while await claims(api):
                await asyncio.sleep(0)


async def test_a_refused_write_takes_nothing(tmp_path: Path) -> None:
    """Neither a dry run, nor an invalid service, nor one whose name is taken."""
    async with serving(tmp_path) as api:
        await api.ok("POST", services(), service("one"))
        before = await claims(api)
        await api.ok("POST", services(), service("two", type="NodePort"), params={"dryRun": "All"})
        assert (await api("POST", services(), service("three", type="NodePort", sessionAffinity="Nonsense"))).status_code == 422
        assert (await api("POST", services(), service("one", type="NodePort"))).status_code == 409
        assert await claims(api) == before


async def test_concurrent_updates_keep_their_ports(tmp_path: Path) -> None:
    """Patches that race for the last port of the range: it has one owner."""
    async with serving(tmp_path) as api:
        for number in range(4):
            await api.ok("POST", services(), service(f"s{number}"))
        merge = {"Content-Type": "application/merge-patch+json"}
        change = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30003}]}}
        answers = await asyncio.gather(*(api("PATCH", f"{services()}/s{number}", change, headers=merge) for number in range(4)))
        assert sorted(answer.status_code for answer in answers) == [200, 422, 422, 422]
        assert [claim for claim in await claims(api) if "=np:" in claim] == ["a=np:30003"]


async def test_services_from_before_keep_their_addresses(tmp_path: Path) -> None:
    """A start with ranges claims what services have already, and a start without them forgets it."""
    async with serving(tmp_path, storage="sqlite", service_cluster_ip_range=()) as api:
        await api.ok("POST", services(), service("old", clusterIP="10.7.0.5", type="NodePort", ports=[{"port": 80, "nodePort": 30001}]))
        await api.ok("POST", services(), service("same", clusterIP="10.7.0.5"))
        await api.ok("POST", services(), service("outside", clusterIP="192.0.2.7"))
        assert await claims(api) == set()
    for _ in range(2):
        async with serving(tmp_path, storage="sqlite") as api:
            assert await claims(api) == {"a=ip:10.7.0.5", "a=np:30001"}
            assert (await api("POST", services(), service("new", clusterIP="10.7.0.5"))).status_code == 422
    async with serving(tmp_path, storage="sqlite") as api:
        # It does not have the claim, and does not take it along.
        await api.ok("DELETE", f"{services()}/same")
        assert await claims(api) == {"a=ip:10.7.0.5", "a=np:30001"}
    async with serving(tmp_path, storage="sqlite", service_cluster_ip_range=()) as api:
        assert await claims(api) == set()
        await api.ok("POST", services(), service("new", clusterIP="10.7.0.5"))


async def test_other_ranges_have_other_claims(tmp_path: Path) -> None:
    """A larger range knows the services outside of the former one, and a smaller one forgets them."""
    wide = {"storage": "sqlite", "service_cluster_ip_range": ("10.7.0.0/24",)}
    async with serving(tmp_path, storage="sqlite", service_cluster_ip_range=()) as api:
        await api.ok("POST", services(), service("early", clusterIP="10.7.0.100"))
    async with serving(tmp_path, storage="sqlite") as api:
        assert await claims(api) == set()
    async with serving(tmp_path, **wide) as api:
        assert await claims(api) == {"a=ip:10.7.0.100"}
        assert (await api("POST", services(), service("new", clusterIP="10.7.0.100"))).status_code == 422
        await api.ok("POST", services(), service("other", clusterIP="10.7.0.101"))
    async with serving(tmp_path, storage="sqlite") as api:
        assert await claims(api) == set()
        await api.ok("DELETE", f"{services()}/other")
    async with serving(tmp_path, **wide) as api:
        assert await claims(api) == {"a=ip:10.7.0.100"}


async def test_claims_of_clusters_of_the_system_are_found(tmp_path: Path) -> None:
    """A name with a colon is the whole name when other ranges are checked against the claims."""
    where, ports = services("system:admin"), {"service_node_port_range": "30000-30002"}
    async with serving(tmp_path, storage="sqlite") as api:
        await api.ok("POST", where, service("one", clusterIP="10.7.0.5"))
        before = await claim_revisions(api)
        assert [*before] == ["system:admin=ip:10.7.0.5"]
    async with serving(tmp_path, storage="sqlite", **ports) as api:
        # Not removed and claimed anew: between the two another server could take the address.
        assert await claim_revisions(api) == before
        assert (await api("POST", where, service("two", clusterIP="10.7.0.5"))).status_code == 422


async def test_services_of_a_definition_get_addresses_too(tmp_path: Path) -> None:
    """Where a cluster has the kind from a CRD."""
    async with serving(tmp_path, builtin_kinds=()) as api:
        for crd in crds_named(("services",)):
            await install(api, crd)
        made = await api.ok("POST", services(), service("one"))
        assert ipaddress.ip_address(made["spec"]["clusterIP"]) in ipaddress.ip_network(RANGE)
        kubernetes = await api.ok("GET", f"{services()}/kubernetes")
        assert kubernetes["spec"]["clusterIP"] == "10.7.0.1"


async def test_the_service_kubernetes_keeps_its_address(tmp_path: Path) -> None:
    """Also once a client has labelled it, so that it is stored. No other service gets the address."""
    async with serving(tmp_path) as api:
        merge = {"Content-Type": "application/merge-patch+json"}
        await api.ok("PATCH", f"{services()}/kubernetes", {"metadata": {"labels": {"a": "b"}}}, headers=merge)
        assert (await api("POST", services(), service("one", clusterIP="10.7.0.1"))).status_code == 422
        assert await claims(api) == set()


async def test_large_ranges_are_not_searched_from_their_beginning(tmp_path: Path) -> None:
    """A range with 2**64 addresses answers like a small one."""
    async with serving(tmp_path, service_cluster_ip_range=("fd00::/64",)) as api:
        made = await api.ok("POST", services(), service("one"))
        assert (made["spec"]["ipFamilies"], made["spec"]["clusterIP"].startswith("fd00::")) == (["IPv6"], True)
