"""Migrations store the objects of a resource again, in the version in which they are stored now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controllers import start_controllers
from kcp_py.controllers.migrations import CRDS, MIGRATIONS, StorageVersionMigrator
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

KIND = "storageversionmigrations.storagemigration.k8s.io"
CONTROLLERS = ("storage-version-migrator-controller", "customresourcedefinition-controller")
GROUP = "example.com"
V1, V2 = GroupVersionResource(GROUP, "v1", "gears"), GroupVersionResource(GROUP, "v2", "gears")
NAME = f"gears.{GROUP}"
OBJECTS = 150
"""More than a page."""


def definition(storage: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
            "scope": "Namespaced",
            "versions": [{"name": name, "served": True, "storage": name == storage, "schema": schema} for name in ("v1", "v2")],
        },
    }


async def establish(plane: Plane, cluster: Name = TEAM) -> None:
    """Have gears, stored in v1."""
    await plane.control_plane.client.create(cluster, CRDS, definition("v1"))

    async def served() -> bool:
        return await plane.control_plane.client.find_resource(cluster, V1.group_resource) is not None

    await plane.until(served)


async def make(plane: Plane, name: str, cluster: Name = TEAM) -> None:
    await plane.control_plane.client.create(cluster, V1, {"metadata": {"name": name, "namespace": "default"}})


async def store_v2(plane: Plane, cluster: Name = TEAM) -> None:
    """Make v2 the storage version."""
    crd = await plane.control_plane.client.get(cluster, CRDS, "", NAME)
    await plane.control_plane.client.update(cluster, CRDS, {**crd, "spec": definition("v2")["spec"]})


async def migrate(plane: Plane, name: str, resource: str = "gears", group: str = GROUP) -> None:
    spec = {"resource": {"group": group, "resource": resource}}
    await plane.control_plane.client.create(TEAM, MIGRATIONS, {"metadata": {"name": name}, "spec": spec})


async def stored(plane: Plane, cluster: Name) -> list[str]:
    """The versions in which gears are stored, by name."""
    page = await plane.control_plane.backend.access.storage.range("/registry/")
    found = [orjson.loads(item.value) for item in page.items if "/gears/" in item.key and f"/{cluster}/" in item.key]
    return [f"{one['metadata']['name']} {one['apiVersion']}" for one in found if one["kind"] == "Gear"]


async def conditions(plane: Plane, name: str) -> dict[str, tuple[str, str]]:
    """Type -> status and reason."""
    found = await plane.find(TEAM, MIGRATIONS, name, "")
    return {one["type"]: (one["status"], one["reason"]) for one in ((found or {}).get("status") or {}).get("conditions") or ()}


DONE = {"Running": ("False", "MigrationCompleted"), "Succeeded": ("True", "StorageVersionMigrationSucceeded")}


@pytest.mark.parametrize("way", WAYS)
async def test_objects_are_stored_in_the_new_version(way: str, tmp_path: Path) -> None:
    """All of the cluster and none of another one, and the CRD forgets the old version, which can then be removed."""
    async with open_plane(way, tmp_path, KIND) as plane:
        start_controllers(plane.supervisor, plane.client, plane.tap, CONTROLLERS)
        for cluster in (TEAM, OTHER):
            await establish(plane, cluster)
            await make(plane, "g0", cluster)
        for number in range(1, OBJECTS):
            await make(plane, f"g{number}")
        for cluster in (TEAM, OTHER):
            await store_v2(plane, cluster)
        await migrate(plane, "m")

        async def ended() -> bool:
            return await conditions(plane, "m") == DONE

        await plane.until(ended)
        assert sorted(await stored(plane, TEAM)) == sorted(f"g{number} {GROUP}/v2" for number in range(OBJECTS))
        assert await stored(plane, OTHER) == [f"g0 {GROUP}/v1"]
        crd = await plane.control_plane.client.get(TEAM, CRDS, "", NAME)
        assert crd["status"]["storedVersions"] == ["v2"]
        migrating = next(one for one in crd["status"]["conditions"] if one["type"] == "StorageMigrating")
        assert (migrating["status"], migrating["reason"]) == ("False", "MigrationSucceeded")
        assert (await plane.control_plane.client.get(OTHER, CRDS, "", NAME))["status"]["storedVersions"] == ["v1", "v2"]
        crd["spec"]["versions"] = crd["spec"]["versions"][1:]
        await plane.control_plane.client.update(TEAM, CRDS, crd)


async def test_migrations_of_a_resource_run_one_after_the_other(tmp_path: Path) -> None:
    """The oldest first, or by name; when it has ended, the next one follows by itself."""
    async with open_plane(WAYS[0], tmp_path, KIND) as plane:
        for name in ("b", "a"):
            await migrate(plane, name, "configmaps", "")
        start_controllers(plane.supervisor, plane.client, plane.tap, CONTROLLERS[:1])

        async def ended() -> bool:
            return [await conditions(plane, name) for name in ("a", "b")] == [DONE, DONE]

        await plane.until(ended)
        found = [await plane.find(TEAM, MIGRATIONS, name, "") for name in ("a", "b")]
        versions = [int(one["status"]["resourceVersion"]) for one in found if one]
        assert versions == sorted(versions)


async def test_a_definition_that_changes_meanwhile_keeps_its_stored_versions(tmp_path: Path) -> None:
    """Objects that were written meanwhile may have the version of another definition."""
    async with open_plane(WAYS[0], tmp_path, KIND) as plane:
        start_controllers(plane.supervisor, plane.client, plane.tap, CONTROLLERS[1:])
        await establish(plane)
        await store_v2(plane)
        await migrate(plane, "m")
        migrator = StorageVersionMigrator(plane.client)
        key = Key(TEAM, "", NAME)
        await migrator.reconcile(key)
        crd = await plane.control_plane.client.get(TEAM, CRDS, "", NAME)
        crd["spec"]["versions"][0]["storage"], crd["spec"]["versions"][1]["storage"] = True, False
        await plane.control_plane.client.update(TEAM, CRDS, crd)
        await migrator.reconcile(key)
        assert await conditions(plane, "m") == DONE
        crd = await plane.control_plane.client.get(TEAM, CRDS, "", NAME)
        assert crd["status"]["storedVersions"] == ["v1", "v2"]
        migrating = next(one for one in crd["status"]["conditions"] if one["type"] == "StorageMigrating")
        assert migrating["message"].endswith("the stored versions have not been updated due to a generation mismatch")


async def test_a_resource_that_is_not_served_is_waited_for(tmp_path: Path) -> None:
    """For a minute; then the migration has failed, as one of a resource without updates at once."""
    now = [0.0]
    async with open_plane(WAYS[0], tmp_path, KIND) as plane:
        await migrate(plane, "m", "nothings")
        await migrate(plane, "n", "selfsubjectreviews", "authentication.k8s.io")
        migrator = StorageVersionMigrator(plane.client, clock=lambda: now[0])
        assert await migrator.reconcile(Key(TEAM, "", f"nothings.{GROUP}")) == Later(5.0)
        assert await conditions(plane, "m") == {}
        now[0] = 1e11
        assert await migrator.reconcile(Key(TEAM, "", f"nothings.{GROUP}")) == 0
        assert await conditions(plane, "m") == {"Failed": ("True", "StorageVersionMigrationFailed")}
        await migrator.reconcile(Key(TEAM, "", "selfsubjectreviews.authentication.k8s.io"))
        found = await plane.find(TEAM, MIGRATIONS, "n", "")
        messages = [one["message"] for one in (found or {})["status"]["conditions"] if one["type"] == "Failed"]
        name = "authentication.k8s.io/v1, Resource=selfsubjectreviews"
        problem = f'resource "{name}" does not support discovery operations: [update patch list]'
        assert messages == [f"migration encountered unhandled error: {problem}"]
