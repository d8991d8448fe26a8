"""Keys of built-in kinds and of custom resources of the same name in one store, and stores below a deep prefix."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.storage.opening import open_storage
from tests.controlplane.test_controlplane import running
from tests.server.handlers.conftest import Api, Watch, config_map, established, make_crd, options

pytestmark = pytest.mark.anyio

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployments(scope: str) -> dict[str, Any]:
    """A CRD that takes the name of a kind of Kubernetes."""
    crd = make_crd("deployments", "apps")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com"}
    crd["spec"]["names"].update(kind="Deployment", listKind="DeploymentList")
    crd["spec"]["scope"] = scope
    return crd


async def listed(api: Api, path: str) -> list[tuple[str, str]]:
    found = await api.ok("GET", path)
    return [(item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["name"]) for item in found["items"]]


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_a_kind_that_becomes_built_in(tmp_path: Path, scope: str) -> None:
    """Objects of CRDs stay where they are, out of sight, whatever clusters are called; they come back with their CRD."""
    file = tmp_path / "kcp.db"
    path = DEPLOYMENTS if scope == "Namespaced" else "/apis/apps/v1/deployments"
    custom = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"secret": "of a"}}
    async with running(ControlPlane(options(tmp_path), storage=open_storage("sqlite", path=file))) as api:
        await api.ok("POST", f"/clusters/default{CRDS}", deployments(scope))
        await established(api, "default", "deployments.apps")
        await api.ok("POST", f"/clusters/default{path}", custom)
    selector = {"matchLabels": {"app": "web"}}
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    built_in = {**custom, "metadata": {"name": "db"}, "spec": {"selector": selector, "template": pod}}
    chosen = options(tmp_path, builtin_kinds=("deployments",))
    async with running(ControlPlane(chosen, storage=open_storage("sqlite", path=file))) as api:
        await api.ok("POST", f"/clusters/customresources{DEPLOYMENTS}", built_in)
        for asked in ("/clusters/customresources/apis/apps/v1/deployments", f"/clusters/customresources{DEPLOYMENTS}"):
            assert await listed(api, asked) == [("customresources", "db")]
        assert await listed(api, "/clusters/*/apis/apps/v1/deployments") == [("customresources", "db")]
        await api.fails(404, "GET", f"/clusters/customresources{DEPLOYMENTS}/web")
        async with Watch(api, "/clusters/*/apis/apps/v1/deployments") as watch:
            assert await watch.brief() == ("ADDED", "db")
        await api.ok("DELETE", f"/clusters/customresources{CLUSTER}")
        async with asyncio.timeout(30):
            while (await api("GET", f"/clusters/customresources{DEPLOYMENTS}/db")).status_code == 200:
                await asyncio.sleep(0)
    async with running(ControlPlane(options(tmp_path), storage=open_storage("sqlite", path=file))) as api:
        assert (await api.ok("GET", f"/clusters/default{path}/web"))["spec"] == {"secret": "of a"}


async def test_a_prefix_of_several_segments(tmp_path: Path) -> None:
    """Namespaces, CRDs and the garbage collector find their objects below any prefix."""
    async with running(ControlPlane(options(tmp_path, etcd_prefix="/kcp/prod"))) as api:
        await api.ok("POST", "/clusters/a/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        maps = "/clusters/a/api/v1/namespaces/shop/configmaps"
        owner = await api.ok("POST", maps, config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        async with Watch(api, maps, resourceVersion=owner["metadata"]["resourceVersion"]) as watch:
            await api.ok("POST", maps, config_map("dependent", ownerReferences=[reference]))
            await api.ok("DELETE", f"{maps}/owner", {"propagationPolicy": "Background"})
            told = [("ADDED", "dependent"), ("DELETED", "owner"), ("DELETED", "dependent")]
            assert [await watch.brief() for _ in told] == told
        await api.ok("POST", f"/clusters/a{CRDS}", make_crd())
        await established(api, "a")
