"""A stored resource that is described in code is served as if a CRD defined it, with the rules of its author."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from kcp_py import StoredResource, StoredVersion
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.rest.storage import RestStorage
from tests.server.handlers.conftest import Api, Watch, make_crd, options

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[2] / "config/samples/own_api_group.py"
SHIPS = "/clusters/a/apis/fleet.example.com/v1/namespaces/default/ships"
MERGE = {"Content-Type": "application/merge-patch+json"}
OBJECT = {"type": "object", "properties": {"spec": {"type": "object"}}}


def sample() -> ModuleType:
    """The module that users are shown."""
    spec = importlib.util.spec_from_file_location("own_api_group", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane with the group of the sample."""
    async with ControlPlane(options(tmp_path), apis=sample().install()) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def ship(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": name}, "spec": {"home": "Iolcus", **spec}}


async def test_the_life_of_an_object(api: Api) -> None:
    """Defaults, first status, generation, optimistic lock, watch and deletion are those of any stored object."""
    async with Watch(api, SHIPS) as watch:
        created = await api.ok("POST", SHIPS, {**ship("argo"), "status": {"phase": "AtSea"}})
        assert created["spec"] == {"home": "Iolcus", "crew": 10}
        assert created["status"] == {"phase": "Docked", "crew": 0}
        assert created["metadata"]["generation"] == 1
        changed = await api.ok("PATCH", f"{SHIPS}/argo", {"spec": {"crew": 50}, "status": {"phase": "AtSea"}}, headers=MERGE)
        assert (changed["metadata"]["generation"], changed["status"]["phase"]) == (2, "Docked")
        await api.fails(409, "PUT", f"{SHIPS}/argo", created)
        await api.ok("DELETE", f"{SHIPS}/argo")
        assert [await watch.brief() for _ in range(3)] == [("ADDED", "argo"), ("MODIFIED", "argo"), ("DELETED", "argo")]
    keys = await api.control_plane.backend.access.storage.range("/registry/fleet.example.com/", keys_only=True)
    assert not keys.items


async def test_schema_and_rules(api: Api) -> None:
    """Types, CEL rules, the author's validation and warnings all count."""
    refused = await api.fails(422, "POST", SHIPS, ship("argo", crew=7))
    assert "rowers sit in pairs" in refused["message"]
    assert (await api.fails(422, "POST", SHIPS, ship("argo", crew=0)))["details"]["causes"][0]["field"] == "spec.crew"
    answer = await api("POST", SHIPS, ship("argo", crew=120))
    assert "second deck" in answer.headers["warning"]
    moved = await api.fails(422, "PATCH", f"{SHIPS}/argo", {"spec": {"home": "Corinth"}}, headers=MERGE)
    assert moved["message"] == 'Ship.fleet.example.com "argo" is invalid: spec.home: Invalid value: "Corinth": a ship keeps its home port'


async def test_subresources(api: Api) -> None:
    """The status has a writer of its own, and the scale shows the crew."""
    await api.ok("POST", SHIPS, ship("argo"))
    sailed = await api.ok("PATCH", f"{SHIPS}/argo/status", {"status": {"phase": "AtSea", "crew": 10}, "spec": {"crew": 2}}, headers=MERGE)
    assert (sailed["spec"]["crew"], sailed["status"]["phase"]) == (10, "AtSea")
    scale = await api.ok("PATCH", f"{SHIPS}/argo/scale", {"spec": {"replicas": 50}}, headers=MERGE)
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 50}, 10)
    assert (await api.ok("GET", f"{SHIPS}/argo"))["spec"]["crew"] == 50


async def test_documents_and_lists(api: Api) -> None:
    """Discovery, OpenAPI, tables, field selectors and all clusters at once."""
    await api.ok("POST", SHIPS, ship("argo"))
    await api.ok("POST", SHIPS.replace("/a/", "/b/"), ship("other", home="Corinth"))
    entries = (await api.ok("GET", "/clusters/c/apis/fleet.example.com/v1"))["resources"]
    assert [(one["name"], one.get("shortNames")) for one in entries] == [("ships", ["sh"]), ("ships/status", None), ("ships/scale", None)]
    document = await api.ok("GET", "/clusters/c/openapi/v3/apis/fleet.example.com/v1")
    assert document["components"]["schemas"]["com.example.fleet.v1.Ship"]["description"] == "Ship is a ship of a fleet."
    table = await api.ok("GET", SHIPS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [row["cells"] for row in table["rows"]] == [["argo", "Iolcus", 10, "Docked"]]
    found = await api.ok("GET", "/clusters/*/apis/fleet.example.com/v1/ships", params={"fieldSelector": "spec.home=Corinth"})
    assert [item["metadata"]["name"] for item in found["items"]] == ["other"]


async def test_no_crd_takes_the_place(api: Api) -> None:
    """As of any resource that every cluster serves."""
    refused = await api.fails(
        422, "POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd("ships", "fleet.example.com")
    )
    assert "is a built-in resource" in refused["message"]


def test_a_description_that_no_crd_could_have() -> None:
    """It is refused when the server starts, and the message names the fault."""
    resource = StoredResource(group="example.com", version="v1", resource="Things", kind="Thing", schema={"type": "string"})
    with pytest.raises(ValueError, match=r"Things\.example\.com: .*spec\.names\.plural"):
        resource.served("/registry")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(StoredResource(group="example.com", version="v2", resource="things", kind="Thing", schema=OBJECT), id="two versions"),
        pytest.param(
            ComputedResource(group="example.com", version="v2", resource="things", kind="Other", rest=RestStorage()),
            id="stored and computed",
        ),
        pytest.param(StoredResource(group="example.com", version="v1", resource="others", kind="Thing", schema=OBJECT), id="same kind"),
    ],
)
async def test_a_name_belongs_to_one_resource(tmp_path: Path, other: StoredResource | ComputedResource) -> None:
    """Objects of two resources of one name would be stored in the same place."""
    things = StoredResource(group="example.com", version="v1", resource="things", kind="Thing", schema=OBJECT)
    with pytest.raises(ValueError, match="has the name or the kind of another resource"):
        async with ControlPlane(options(tmp_path), apis=[things, other]):
            pass


GROUP = "/clusters/a/apis/example.com"


def _of(field: str) -> dict[str, Any]:
    """The schema of a version that has the colour in a field of its own."""
    spec = {"type": "object", "properties": {field: {"type": "string"}}}
    return {"type": "object", "properties": {"spec": spec}}


async def _rename(objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
    field = {"example.com/v1": "color", "example.com/v2": "colour"}[api_version]
    return [{**obj, "apiVersion": api_version, "spec": dict.fromkeys([field], *obj["spec"].values())} for obj in objects]


async def test_several_versions(tmp_path: Path) -> None:
    """Objects are written in one version, and read, listed and watched in each; discovery prefers the newer one."""
    v2 = StoredVersion(version="v2", schema=_of("colour"), status=True)
    v3 = StoredVersion(version="v3", schema=_of("colour"), served=False)
    things = StoredResource(
        group="example.com", version="v1", resource="things", kind="Thing", schema=_of("color"), versions=[v2, v3],
        storage_version="v2", converter=_rename,
    )  # fmt: skip
    async with ControlPlane(options(tmp_path), apis=[things]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            path = f"{GROUP}/{{}}/namespaces/default/things"
            async with Watch(api, path.format("v1")) as watch:
                body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"color": "red"}}
                assert (await api.ok("POST", path.format("v1"), body))["spec"] == {"color": "red"}
                await api.ok("PATCH", path.format("v2") + "/one", {"spec": {"colour": "blue"}}, headers=MERGE)
                first, second = [(await watch.next() or {})["object"] for _ in range(2)]
            assert (first["apiVersion"], first["spec"]) == ("example.com/v1", {"color": "red"})
            assert second["spec"] == {"color": "blue"}
            (item,) = (await api.ok("GET", path.format("v2")))["items"]
            assert (item["apiVersion"], item["spec"]) == ("example.com/v2", {"colour": "blue"})
            (stored,) = (await control_plane.backend.access.storage.range("/registry/example.com/things/a/")).items
            assert b'"apiVersion":"example.com/v2"' in stored.value
            everywhere = await api.ok("GET", "/clusters/*/apis/example.com/v1/things")
            assert [one["spec"] for one in everywhere["items"]] == [{"color": "blue"}]
            group = await api.ok("GET", GROUP)
            assert group["preferredVersion"]["version"] == "v2"
            assert [one["version"] for one in group["versions"]] == ["v2", "v1"]
            assert [one["name"] for one in (await api.ok("GET", f"{GROUP}/v2"))["resources"]] == ["things", "things/status"]
            assert (await api("GET", path.format("v3"))).status_code == 404
            await api.ok("DELETE", path.format("v1") + "/one")
            assert not (await api.ok("GET", path.format("v2")))["items"]
