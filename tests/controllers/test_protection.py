"""Claims, volumes and classes of attributes that are in use outlive their deletion, until nothing uses them any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import ObjectChange
from kcp_py.controllers import start_controllers
from kcp_py.controllers.protection import (
    CLAIMS,
    CLASSES,
    PODS,
    VOLUMES,
    ClaimProtectionController,
    ClassProtectionController,
    VolumeProtectionController,
)
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

KINDS = ("pods", "persistentvolumeclaims", "persistentvolumes", "volumeattributesclasses")
NAMES = ("pvc-protection", "pv-protection", "volumeattributesclass-protection-controller")


def claim(name: str = "c", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A claim."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def volume(name: str = "v", **spec: Any) -> dict[str, Any]:
    """A volume."""
    source = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **spec}}


def pod(name: str, claim_name: str, node: str = "n", namespace: str = "default") -> dict[str, Any]:
    """A pod that uses a claim."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def start(plane: Plane) -> None:
    start_controllers(plane.supervisor, plane.client, plane.tap, NAMES)


async def make(plane: Plane, resource: GroupVersionResource, obj: dict[str, Any], cluster: Name = TEAM) -> dict[str, Any]:
    return await plane.control_plane.client.create(cluster, resource, obj)


async def drop(plane: Plane, resource: GroupVersionResource, name: str, cluster: Name = TEAM, namespace: str = "default") -> None:
    await plane.control_plane.client.delete(cluster, resource, namespace if resource in {CLAIMS, PODS} else "", name)


async def until_protected(plane: Plane, resource: GroupVersionResource, name: str, cluster: Name = TEAM) -> None:
    async def has_finalizer() -> bool:
        found = await plane.find(cluster, resource, name, "default" if resource == CLAIMS else "")
        return found is not None and any("-protection" in one for one in found["metadata"].get("finalizers") or ())

    await plane.until(has_finalizer)


async def until_gone(plane: Plane, resource: GroupVersionResource, name: str, cluster: Name = TEAM, namespace: str = "default") -> None:
    async def is_gone() -> bool:
        return await plane.find(cluster, resource, name, namespace if resource == CLAIMS else "") is None

    await plane.until(is_gone)


@pytest.mark.parametrize("way", WAYS)
async def test_a_claim_outlives_its_deletion_while_pods_use_it(way: str, tmp_path: Path) -> None:
    """Those of its namespace and cluster that are on a node."""
    async with open_plane(way, tmp_path, *KINDS) as plane:
        await make(plane, CLAIMS, claim())
        await make(plane, PODS, pod("p", "c"))
        await make(plane, PODS, pod("q", "c"))
        await make(plane, CLAIMS, claim("pending"))
        await make(plane, PODS, pod("unscheduled", "pending", node=""))
        await make(plane, CLAIMS, claim(), OTHER)
        start(plane)
        for name in ("c", "pending"):
            await until_protected(plane, CLAIMS, name)
        await until_protected(plane, CLAIMS, "c", OTHER)
        await drop(plane, CLAIMS, "c", OTHER)
        await until_gone(plane, CLAIMS, "c", OTHER)
        await drop(plane, CLAIMS, "c")
        await drop(plane, CLAIMS, "pending")
        await until_gone(plane, CLAIMS, "pending")
        await drop(plane, PODS, "p")
        assert await plane.find(TEAM, CLAIMS, "c") is not None
        await drop(plane, PODS, "q")
        await until_gone(plane, CLAIMS, "c")


async def test_a_deletion_that_began_before_the_controller_ends(tmp_path: Path) -> None:
    """A process that starts looks at objects that are being deleted, and waits for the pods that it finds."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        for name in ("used", "free"):
            made = claim(name)
            made["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection", "example.com/own"]
            await make(plane, CLAIMS, made)
            await drop(plane, CLAIMS, name)
        await make(plane, PODS, pod("p", "used"))
        start(plane)

        async def is_free() -> bool:
            found = await plane.find(TEAM, CLAIMS, "free")
            return found is not None and found["metadata"]["finalizers"] == ["example.com/own"]

        await plane.until(is_free)
        await drop(plane, PODS, "p")

        async def is_unused() -> bool:
            found = await plane.find(TEAM, CLAIMS, "used")
            return found is not None and found["metadata"]["finalizers"] == ["example.com/own"]

        await plane.until(is_unused)


async def test_a_volume_outlives_its_deletion_while_it_is_bound(tmp_path: Path) -> None:
    """Its status tells it."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        made = await make(plane, VOLUMES, volume())
        bound = await plane.control_plane.client.update(TEAM, VOLUMES, {**made, "status": {"phase": "Bound"}}, subresource="status")
        assert bound["status"]["phase"] == "Bound"
        await make(plane, VOLUMES, volume("free"))
        start(plane)
        for name in ("v", "free"):
            await until_protected(plane, VOLUMES, name)
            await drop(plane, VOLUMES, name)
        await until_gone(plane, VOLUMES, "free")
        found = await plane.find(TEAM, VOLUMES, "v", "")
        assert found is not None
        await plane.control_plane.client.update(TEAM, VOLUMES, {**found, "status": {"phase": "Released"}}, subresource="status")
        await until_gone(plane, VOLUMES, "v")


async def test_a_class_outlives_its_deletion_while_claims_or_volumes_name_it(tmp_path: Path) -> None:
    """Of its cluster, in any namespace."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        for cluster in (TEAM, OTHER):
            await make(plane, CLASSES, {"metadata": {"name": "gold"}, "driverName": "d.example.com", "parameters": {"a": "b"}}, cluster)
        await make(plane, CLAIMS, claim(volumeAttributesClassName="gold"))
        await make(plane, VOLUMES, volume(volumeAttributesClassName="gold"))
        start(plane)
        for cluster in (TEAM, OTHER):
            await until_protected(plane, CLASSES, "gold", cluster)
            await drop(plane, CLASSES, "gold", cluster)
        await until_gone(plane, CLASSES, "gold", OTHER)
        await drop(plane, CLAIMS, "c")
        await until_gone(plane, CLAIMS, "c")
        assert await plane.find(TEAM, CLASSES, "gold", "") is not None
        await drop(plane, VOLUMES, "v")
        await until_gone(plane, CLASSES, "gold")


async def test_a_namespace_with_claims_in_use_is_emptied(tmp_path: Path) -> None:
    """Pods go with their namespace, so claims do not keep it."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        namespaces = GroupVersionResource("", "v1", "namespaces")
        await make(plane, namespaces, {"metadata": {"name": "t"}})
        start_controllers(plane.supervisor, plane.client, plane.tap, (*NAMES, "namespace-controller"))
        await make(plane, CLAIMS, claim(namespace="t"))
        await make(plane, PODS, pod("p", "c", namespace="t"))
        await plane.control_plane.client.delete(TEAM, namespaces, "", "t")

        async def is_gone() -> bool:
            return await plane.find(TEAM, namespaces, "t", "") is None

        await plane.until(is_gone)


@pytest.mark.parametrize(
    ("user", "used"),
    [
        (pod("p", "c"), True),
        (pod("p", "other"), False),
        (pod("p", "c", node=""), False),
        ({"metadata": {"name": "a", "uid": "u"}, "spec": {"nodeName": "n", "volumes": [{"name": "b", "ephemeral": {}}]}}, False),
        ({"metadata": {"name": "a", "uid": "o"}, "spec": {"nodeName": "n", "volumes": [{"name": "b", "ephemeral": {}}]}}, True),
        (
            {
                "metadata": {"name": "a", "uid": "o", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0},
                "spec": {"nodeName": "n", "volumes": [{"name": "b", "ephemeral": {}}]},
            },
            False,
        ),
        (
            {
                "metadata": {"name": "a", "uid": "o", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 30},
                "spec": {"nodeName": "n", "volumes": [{"name": "b", "ephemeral": {}}]},
            },
            True,
        ),
        ({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}, False),
    ],
)
def test_pods_that_use_a_claim(user: dict[str, Any], used: bool) -> None:  # noqa: FBT001 - a column of the table
    """By its name, or as the claim of an ephemeral volume of their own that is not shut down."""
    owned = {"metadata": {"name": user.get("claim", "a-b"), "ownerReferences": [{"uid": "o", "controller": True}]}}
    plain = {"metadata": {"name": "c"}}
    assert ClaimProtectionController.uses(user, plain if user["metadata"]["name"] == "p" else owned) is used


def test_claims_that_use_a_class() -> None:
    """By the class that they ask for, the one that they have and the one that they get."""
    gold = {"metadata": {"name": "gold"}}
    assert ClassProtectionController.uses({"spec": {"volumeAttributesClassName": "gold"}}, gold)
    assert ClassProtectionController.uses({"spec": {}, "status": {"currentVolumeAttributesClassName": "gold"}}, gold)
    assert ClassProtectionController.uses({"spec": {}, "status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}}}, gold)
    assert not ClassProtectionController.uses({"spec": {"volumeAttributesClassName": "silver"}}, gold)


async def test_an_idle_controller_keeps_nothing_in_memory(tmp_path: Path) -> None:
    """Changes of protected objects and of pods cause no work, unless an object waits for this pod."""
    async with open_plane(WAYS[0], tmp_path, *KINDS) as plane:
        controller = ClaimProtectionController(plane.client)
        made = claim()
        made["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]

        def change(resource: GroupVersionResource, obj: dict[str, Any] | None, name: str) -> ObjectChange:
            return ObjectChange(TEAM, resource.group_resource, "default", name, None if obj is None else orjson.dumps(obj), None)

        assert list(controller.keys(change(CLAIMS, made, "c"))) == []
        assert list(controller.keys_of_user(change(PODS, None, "p"))) == []
        await make(plane, CLAIMS, made)
        await make(plane, PODS, pod("p", "c"))
        await drop(plane, CLAIMS, "c")
        key = Key(TEAM, "default", "c")
        await controller.reconcile(key)
        assert list(controller.keys_of_user(change(PODS, None, "p"))) == [key]
        assert list(controller.keys_of_user(change(PODS, None, "q"))) == []
        assert list(controller.keys_of_user(change(PODS, None, "p")._replace(cluster=OTHER))) == []
        await drop(plane, PODS, "p")
        await controller.reconcile(key)
        assert await plane.find(TEAM, CLAIMS, "c") is None
        assert list(controller.keys_of_user(change(PODS, None, "p"))) == []
        assert VolumeProtectionController(plane.client).users == {}
