"""Where answers name the logical cluster of an object."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.registry.rendering import CLUSTER_ANNOTATION
from tests.server.handlers.conftest import Api, config_map, established, instance, make_crd, options

pytestmark = pytest.mark.anyio

MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
PARTIAL_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
YAML = {"Accept": "application/yaml"}
FORCE = {"fieldManager": "m", "force": "true"}
INITIAL = {"watch": "1", "timeoutSeconds": "1"}


@asynccontextmanager
async def running(tmp_path: Path, annotation: Any) -> AsyncIterator[Api]:
    async with ControlPlane(replace(options(tmp_path), cluster_annotation=annotation)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def answers(api: Api, base: str, collection: str, obj: dict[str, Any]) -> dict[str, str]:
    """What each kind of request for one object is answered with, as text."""
    name = obj["metadata"]["name"]
    path = f"{base}{collection}/{name}"
    found: dict[str, str] = {}

    async def ask(what: str, method: str, at: str, **more: Any) -> None:
        answer = await api(method, at, **more)
        assert answer.status_code < 300, answer.text
        found[what] = answer.text

    if base != "/clusters/*":
        await ask("create", "POST", f"{base}{collection}", body=obj)
        await ask("get", "GET", path)
        await ask("partial metadata", "GET", path, headers=PARTIAL)
        await ask("YAML", "GET", path, headers=YAML)
        await ask("patch", "PATCH", path, content=json.dumps({"metadata": {"annotations": {"mine": "yes"}}}).encode(), headers=MERGE)
        await ask("get with annotations", "GET", path)
        await ask("update", "PUT", path, body=json.loads(found["patch"]))
        applied = {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}
        await ask("apply", "PATCH", path, content=json.dumps(applied).encode(), headers=APPLY, params=FORCE)
    await ask("list", "GET", f"{base}{collection}")
    await ask("selected list", "GET", f"{base}{collection}", params={"labelSelector": "a=b"})
    await ask("list of metadata", "GET", f"{base}{collection}", headers=PARTIAL_LIST)
    await ask("table", "GET", f"{base}{collection}", headers=TABLE)
    await ask("watch", "GET", f"{base}{collection}", params=INITIAL)
    return found


@pytest.mark.parametrize("annotation", ["always", "wildcard"])
async def test_answers_name_the_cluster_as_the_setting_says(tmp_path: Path, annotation: str) -> None:
    """Wildcard answers always do; those of one cluster, in every form and for both sorts of kinds, where it is asked for."""
    async with running(tmp_path, annotation) as api:
        await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
        await established(api, "a")
        for collection, obj in ((MAPS, config_map("one")), (WIDGETS, instance("one"))):
            found = await answers(api, "/clusters/a", collection, obj)
            everywhere = await answers(api, "/clusters/*", collection.replace("/namespaces/default", ""), obj)
            named = {what for what, text in found.items() if CLUSTER_ANNOTATION in text}
            assert named == (set(found) if annotation == "always" else set())
            assert all(CLUSTER_ANNOTATION in text for text in everywhere.values())
            assert '"mine"' in found["get with annotations"]
