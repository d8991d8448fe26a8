"""New volumes, claims and classes of attributes get their finalizers, where a controller removes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.admission.serving import CLUSTER, CORE, recorded, serving
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

KINDS = ("persistentvolumes", "persistentvolumeclaims", "volumeattributesclasses", "storageclasses")
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}


async def finalizers(api: Api, cluster: str = "a", **metadata: Any) -> list[str]:
    """Of a claim that is created as a dry run."""
    path = f"/clusters/{cluster}/api/v1/namespaces/default/persistentvolumeclaims"
    made = await api.ok("POST", path, {"metadata": {"name": "c", **metadata}, **CLAIM}, params={"dryRun": "All"})
    found: list[str] = made["metadata"].get("finalizers", [])
    return found


async def test_finalizers_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    """Of each kind, behind the ones that an object has, and never twice."""
    async with serving(tmp_path, *KINDS) as api:
        for path, obj, found in recorded("storageprotection"):
            made = await api.ok("POST", CLUSTER + path, obj, params={"dryRun": "All"})
            assert made["metadata"].get("finalizers") == found, path


async def test_an_object_that_is_not_used_is_deleted(tmp_path: Path) -> None:
    """The controllers of the server take the finalizer away."""
    async with serving(tmp_path, *KINDS) as api:
        path = f"{CORE}/namespaces/default/persistentvolumeclaims"
        await api.ok("POST", path, {"metadata": {"name": "c"}, **CLAIM})
        deleted = await api.ok("DELETE", f"{path}/c")
        assert deleted["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        fanout, storage = api.control_plane.backend.fanout, api.control_plane.backend.access.storage
        while True:
            revision = await storage.revision()
            if (await api("GET", f"{path}/c")).status_code == 404:
                break
            await fanout.reached(revision + 1)


async def test_without_a_controller_nothing_gets_a_finalizer(tmp_path: Path) -> None:
    """No deletion waits for ever. An operator whose controllers run elsewhere enables the plugin by its name."""
    name = "persistentvolumeclaim-protection-controller"
    for controllers in (("-*",), (), ("*", f"-{name}"), ("namespace-controller",)):
        async with serving(tmp_path, *KINDS, controllers=controllers) as api:
            assert await finalizers(api) == [], controllers
    async with serving(tmp_path, *KINDS, controllers=(), enable_admission_plugins=("StorageObjectInUseProtection",)) as api:
        assert await finalizers(api) == ["kubernetes.io/pvc-protection"]
    async with serving(tmp_path, *KINDS, disable_admission_plugins=("StorageObjectInUseProtection",)) as api:
        assert await finalizers(api) == []
