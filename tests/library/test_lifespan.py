"""A control plane as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from kcp_py import ControlPlane, GroupVersionResource, Options, StoredResource, UserInfo, parse_name

pytestmark = pytest.mark.anyio

TEAM = parse_name("team-a")
THINGS = StoredResource(group="example.com", version="v1", resource="things", kind="Thing", schema={"type": "object"}, namespaced=False)


def control_plane(**arguments: Any) -> ControlPlane:
    cp = ControlPlane(Options(storage="memory"), batteries=(), apis=[THINGS], **arguments)
    cp.authenticator(lambda _: UserInfo("admin", groups=("system:masters",)))
    return cp


class Lifespan:
    """What a server tells an application, and hears from it."""

    def __init__(self, *told: str) -> None:
        self._told = list(told)
        self.heard: list[str] = []

    async def receive(self) -> dict[str, str]:
        return {"type": self._told.pop(0)}

    async def send(self, message: Any) -> None:
        self.heard.append(f"{message['type']}{' ' + message['message'] if 'message' in message else ''}")


async def test_the_lifespan_enters_and_leaves_the_control_plane() -> None:
    """So that `uvicorn module:control_plane` needs no other line."""
    cp = control_plane()
    lifespan = Lifespan("lifespan.startup", "lifespan.shutdown")
    await cp({"type": "lifespan"}, lifespan.receive, lifespan.send)
    assert lifespan.heard == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert cp.is_entered


async def test_a_start_that_fails_is_told_to_the_server() -> None:
    """With the reason."""
    cp = ControlPlane(Options(storage="memory"), batteries=["core"])
    lifespan = Lifespan("lifespan.startup")
    with pytest.raises(ValueError, match="needs the battery namespaces"):
        await cp({"type": "lifespan"}, lifespan.receive, lifespan.send)
    assert lifespan.heard[0].startswith("lifespan.startup.failed ValueError: the battery core needs")


async def test_a_request_before_the_start_is_a_mistake_of_the_program() -> None:
    """It says how to enter the control plane."""
    lifespan = Lifespan()
    with pytest.raises(RuntimeError, match="use `async with control_plane`"):
        await control_plane()({"type": "http"}, lifespan.receive, lifespan.send)


async def test_it_is_mounted_in_an_application_of_another_one() -> None:
    """Below a path, in whose lifespan it is entered; its own paths are below that path, and all others are the application's."""
    cp = control_plane()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with cp:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/k8s", cp)

    @app.get("/apis")
    async def apis() -> str:
        return "of the application"

    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        assert (await http.get("/apis")).json() == "of the application"
        assert (await http.get("/k8s/clusters/team-a/apis")).json()["groups"][0]["name"] == "example.com"
        made = await http.post("/k8s/clusters/team-a/apis/example.com/v1/things", json={"metadata": {"name": "one"}, **KIND})
        assert made.status_code == 201
        things = GroupVersionResource("example.com", "v1", "things")
        assert (await cp.client.get(TEAM, things, "", "one"))["metadata"]["annotations"]["kcp.io/cluster"] == "team-a"
        assert (await http.get("/clusters/team-a/apis")).status_code == 404


KIND = {"apiVersion": "example.com/v1", "kind": "Thing"}


def test_connections_over_websocket_pass_the_application_around_it() -> None:
    """A watch below a path, as a browser opens it."""
    cp = control_plane()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with cp:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount("/k8s", cp)
    path = "/k8s/clusters/team-a/apis/example.com/v1/things"
    with TestClient(app) as client:
        assert client.post(path, json={"metadata": {"name": "one"}, **KIND}).status_code == 201
        with client.websocket_connect(f"{path}?watch=true&resourceVersion=0", headers={"origin": "http://testserver"}) as websocket:
            event = orjson.loads(websocket.receive_text())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "one")
