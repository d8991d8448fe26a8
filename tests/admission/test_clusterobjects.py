"""Plugins see the stored objects of a cluster, right after each write, and only those of the kinds of Kubernetes."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.upstream.crds import crds_named
from kcp_py.logicalcluster import Name
from tests.admission.serving import CLUSTER, serving
from tests.server.handlers.conftest import Api, established

pytestmark = pytest.mark.anyio

CLASSES = f"{CLUSTER}/apis/storage.k8s.io/v1/storageclasses"
CRDS = f"{CLUSTER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def storage_class(name: str, provisioner: str = "p") -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": provisioner}


def classes_of(api: Api) -> ClusterObjects[str]:
    """The provisioners of storage classes; those that begin with `bad` cannot be read."""

    def parse(obj: Any) -> str:
        if obj["provisioner"].startswith("bad"):
            raise ValueError
        return str(obj["provisioner"])

    backend = api.control_plane.backend
    return ClusterObjects(
        GroupResource("storage.k8s.io", "storageclasses"),
        parse,
        namespaced=False,
        access=backend.access,
        fanout=backend.fanout,
        tables=backend.tables,
        root=api.control_plane.options.etcd_prefix,
    )


async def names(classes: ClusterObjects[str], cluster: str = "a") -> list[tuple[str, str]]:
    return [(one.name, one.value) for one in await classes.get(Name(cluster))]


async def follow(api: Api, classes: ClusterObjects[str]) -> None:
    """Write, and look after each answer."""
    assert not await names(classes)
    await api.ok("POST", CLASSES, storage_class("one"))
    assert await names(classes) == [("one", "p")]
    await api.ok("POST", CLASSES, storage_class("bad", "bad"))
    await api.ok("POST", CLASSES, storage_class("two", "q"))
    assert await names(classes) == [("one", "p"), ("two", "q")]
    assert not await names(classes, "b")
    await api.ok("DELETE", f"{CLASSES}/one")
    assert await names(classes) == [("two", "q")]


async def test_objects_of_a_kind_of_every_cluster_are_followed(tmp_path: Path) -> None:
    """Each write shows at once; what cannot be read is left out."""
    async with serving(tmp_path, "storageclasses") as api:
        await follow(api, classes_of(api))


async def test_objects_of_a_kind_that_comes_as_a_crd_are_followed(tmp_path: Path) -> None:
    """From its CRD on, until that goes."""
    async with serving(tmp_path) as api:
        classes = classes_of(api)
        assert not await names(classes)
        (crd,) = crds_named(["storageclasses"])
        await api.ok("POST", CRDS, crd)
        await established(api, "a", "storageclasses.storage.k8s.io")
        await follow(api, classes)
        await api.ok("DELETE", f"{CRDS}/storageclasses.storage.k8s.io")
        async with asyncio.timeout(60):
            while (await api("GET", f"{CRDS}/storageclasses.storage.k8s.io")).status_code != 404:
                await asyncio.sleep(0)
        assert not await names(classes)


async def test_a_crd_of_another_schema_has_nothing_to_do_with_the_kind(tmp_path: Path) -> None:
    """Its objects are those of a custom resource."""
    async with serving(tmp_path) as api:
        classes = classes_of(api)
        (crd,) = deepcopy(crds_named(["storageclasses"]))
        for version in crd["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["properties"]["own"] = {"type": "string"}
        await api.ok("POST", CRDS, crd)
        await established(api, "a", "storageclasses.storage.k8s.io")
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **storage_class("one")}
        await api.ok("POST", CLASSES, made)
        assert not await names(classes)


async def test_objects_count_against_the_budget(tmp_path: Path) -> None:
    """By their stored bytes, until the cluster is evicted; they are read again then."""
    async with serving(tmp_path) as api:
        budget = api.control_plane.backend.access.budget
        classes = classes_of(api)
        await api.ok("POST", CRDS, crds_named(["storageclasses"])[0])
        await established(api, "a", "storageclasses.storage.k8s.io")
        await api.ok("POST", CLASSES, storage_class("one"))
        assert await names(classes) == [("one", "p")]
        few = budget.sizes()["admission",]
        await api.ok("POST", CLASSES, {**storage_class("long"), "metadata": {"name": "long", "annotations": {"a": "x" * 10_000}}})
        await names(classes)
        assert budget.sizes()["admission",] - few > 10_000
        for cache in classes._caches.values():
            cache._part.evict(Name("a"))
            assert len(cache) == 0
        assert budget.sizes()["admission",] < few
        assert [name for name, _ in await names(classes)] == ["long", "one"]
