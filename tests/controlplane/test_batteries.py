"""A server serves what its batteries have, and says what a missing one breaks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx
import orjson
import pytest

from kcp_py import (
    ComputedResource,
    ControlPlane,
    Credentials,
    GroupVersionResource,
    Options,
    RestStorage,
    StoredResource,
    UserInfo,
    parse_name,
)
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.controlplane.batteries import Batteries
from kcp_py.options.batteries import BATTERIES, ON_REQUEST

pytestmark = pytest.mark.anyio

TEAM = parse_name("team-a")
SHIPS = StoredResource(
    group="fleet.example.com",
    version="v1",
    resource="ships",
    kind="Ship",
    namespaced=False,
    schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)


class Everyone:
    """The user of the header, else an administrator."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        name = credentials.headers.get(b"x-user")
        return UserInfo("admin", groups=("system:masters",)) if name is None else UserInfo(name.decode())


class Server:
    """A control plane with an HTTP client."""

    def __init__(self, plane: ControlPlane, http: httpx.AsyncClient) -> None:
        self.plane = plane
        self._http = http

    @property
    def served(self) -> set[str]:
        """Each resource as `configmaps` or `leases.coordination.k8s.io`."""
        return {str(resource.group_resource) for resource in self.plane.backend.tables.builtins}

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        answer = await self._http.get(f"/clusters/team-a{path}", headers=headers)
        return answer.status_code, orjson.loads(answer.content) if answer.content.startswith(b"{") else answer.text

    async def post(self, path: str, document: Any) -> tuple[int, Any]:
        answer = await self._http.post(f"/clusters/team-a{path}", json=document)
        return answer.status_code, answer.json()


async def start(stack: AsyncExitStack, batteries: Sequence[str], **settings: Any) -> Server:
    options = Options(storage="memory", **settings)
    plane = await stack.enter_async_context(ControlPlane(options, batteries=batteries, authenticators=[Everyone()], apis=[SHIPS]))
    transport = httpx.ASGITransport(app=plane.app)
    return Server(plane, await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://server")))


def crd(scope: str) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "moons", "singular": "moon", "kind": "Moon", "listKind": "MoonList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "moons.example.com"},
        "spec": {"group": "example.com", "scope": scope, "names": names, "versions": [version]},
    }


async def test_without_batteries_only_the_types_of_the_program_are_served() -> None:
    """Discovery, OpenAPI and requests know nothing else; the type works as any other."""
    async with AsyncExitStack() as stack:
        server = await start(stack, ())
        assert server.served == {"ships.fleet.example.com"}
        _, groups = await server.get("/apis")
        assert [group["name"] for group in groups["groups"]] == ["fleet.example.com"]
        _, documents = await server.get("/openapi/v3")
        assert [*documents["paths"]] == ["apis/fleet.example.com/v1"]
        ship = {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": {"crew": 50}}
        assert (await server.post("/apis/fleet.example.com/v1/ships", ship))[0] == 201
        code, listed = await server.get("/apis/fleet.example.com/v1/ships")
        assert (code, listed["items"][0]["spec"]) == (200, {"crew": 50})
        for path in ("/api/v1/namespaces", "/api/v1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
            assert await server.get(path) == (404, "404 page not found\n")


async def test_a_user_without_roles_is_told_why() -> None:
    """Without the battery rbac the authorizers of the program and `system:masters` remain."""
    async with AsyncExitStack() as stack:
        server = await start(stack, ())
        code, status = await server.get("/apis/fleet.example.com/v1/ships", **{"x-user": "jason"})
        assert code == 403
        assert status["message"].endswith("this server has no roles: the battery rbac is not selected")


async def test_a_definition_cannot_be_namespaced_without_namespaces() -> None:
    """The field is named; one for whole clusters is served."""
    async with AsyncExitStack() as stack:
        server = await start(stack, ["crds"])
        code, status = await server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("Namespaced"))
        assert code == 422
        assert 'spec.scope: Unsupported value: "Namespaced": supported values: "Cluster"' in status["message"]
        code, made = await server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("Cluster"))
        assert (code, made["metadata"]["name"]) == (201, "moons.example.com")


@pytest.mark.parametrize("resource", ["leases.coordination.k8s.io", "configmaps"])
async def test_names_of_built_in_resources_stay_reserved(resource: str) -> None:
    """A tenant does not define what the server leaves out."""
    plural, _, group = resource.partition(".")
    document = crd("Cluster")
    document["metadata"] = {"name": f"{plural}.{group}"}
    document["spec"] |= {"group": group, "names": {"plural": plural, "singular": plural[:-1], "kind": "Own", "listKind": "OwnList"}}
    async with AsyncExitStack() as stack:
        code, status = await (await start(stack, ["crds"])).post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        assert (code, "is a built-in resource" in status["message"] or group == "") == (422, True)


@pytest.mark.parametrize("battery", sorted(BATTERIES))
async def test_each_battery_works_alone(battery: str) -> None:
    """With namespaces, which namespaced resources need: each resource of it is listed, and its controllers run."""
    async with AsyncExitStack() as stack:
        alone = await start(stack, ["namespaces", battery])
        everything = {str(one.group_resource) for one in alone.plane.backend.tables.builtins}
        assert everything - {"ships.fleet.example.com", "namespaces"} or battery == "namespaces"
        assert "namespaces" in everything
        for resource in alone.plane.backend.tables.builtins:
            if "list" in resource.verbs:
                path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
                assert (await alone.get(f"{path}/{resource.resource}"))[0] == 200
        config_map = {"metadata": {"name": "one", "namespace": "default"}}
        if battery == "core":
            made = await alone.plane.client.create(TEAM, GroupVersionResource("", "v1", "configmaps"), config_map)
            assert made["metadata"]["namespace"] == "default"


async def test_every_resource_belongs_to_one_battery() -> None:
    """All of them together are the default; without any of them nothing is left."""
    resources = builtin_resources("/registry")

    def served(*batteries: str) -> list[str]:
        selected = Batteries(Options(batteries=batteries))
        return [str(one.group_resource) for one in resources if selected.serves(one)]

    everything = sorted(str(one.group_resource) for one in resources)
    assert sorted(served("*")) == everything
    assert served() == []
    own = [one for battery in BATTERIES.keys() - ON_REQUEST for one in served("namespaces", battery) if one != "namespaces"]
    assert sorted([*own, "namespaces"]) == everything


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"batteries": ("core",)}, "the battery core needs the battery namespaces"),
        ({"batteries": ("*", "-namespaces")}, "core needs .*; the battery events needs .*; the battery service-accounts needs"),
        ({"batteries": (), "logical_clusters": "declared"}, "--logical-clusters declared needs the battery logical-clusters"),
        ({"batteries": (), "leader_elect": "true"}, "leader election.* needs the battery leases"),
        (
            {"batteries": ("crds",), "controllers": ("namespace-controller",)},
            "--controllers: namespace-controller needs the battery namespaces",
        ),
        ({"batteries": (), "controllers": ("*", "disruption-controller")}, "--controllers: disruption-controller needs the battery crds"),
        ({"batteries": (), "enable_admission_plugins": ("EventRateLimit",)}, "EventRateLimit needs the battery events"),
        ({"batteries": (), "enable_admission_plugins": ("AlwaysPullImages",)}, "AlwaysPullImages needs the battery crds"),
        ({"batteries": ("astrology",)}, "unknown batteries: astrology"),
        ({"batteries": (), "builtin_kinds": ("pods",)}, "pods: namespaced resources need the battery namespaces"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)
async def test_what_a_missing_battery_breaks_is_said_at_the_start(settings: dict[str, Any], problem: str) -> None:
    """Before anything is served."""
    with pytest.raises(ValueError, match=problem):
        await ControlPlane(Options(storage="memory", **settings)).__aenter__()


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "computed"])
async def test_a_namespaced_type_needs_namespaces(stored: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Its name is in the message."""
    names: dict[str, Any] = {"group": "fleet.example.com", "version": "v1", "resource": "boats", "kind": "Boat"}
    boats = StoredResource(**names, schema={"type": "object"}) if stored else ComputedResource(**names, rest=RestStorage())
    with pytest.raises(ValueError, match=r"boats\.fleet\.example\.com: namespaced resources need the battery namespaces"):
        await ControlPlane(Options(storage="memory"), batteries=(), apis=[boats]).__aenter__()


async def test_the_argument_takes_the_place_of_the_setting() -> None:
    """The options of a control plane show what it serves."""
    plane = ControlPlane(Options(batteries=("crds",)), batteries=["leases", "namespaces"])
    assert plane.options.batteries == ("leases", "namespaces")
    assert ControlPlane(Options(batteries=("crds",))).options.batteries == ("crds",)
