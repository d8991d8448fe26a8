"""A Kubernetes API inside a FastAPI application, and routes and middleware inside the control plane.

Start it with `python config/samples/library/mounted.py 8080`:

    kubectl --server http://127.0.0.1:8080/k8s/clusters/team-a create configmap one
    curl http://127.0.0.1:8080/k8s/clusters/team-a/summary
    curl http://127.0.0.1:8080/
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

from kcp_py import ControlPlane, Credentials, Exchange, GroupVersionResource, Options, UserInfo

MAPS = GroupVersionResource("", "v1", "configmaps")

control_plane = ControlPlane(Options(storage="memory"))


@control_plane.authenticator
def everyone(_: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


@control_plane.get("/summary", access="cluster")
async def summary(request: Request) -> dict[str, Any]:
    """A page next to the API, for each logical cluster, for users who may read the path there."""
    exchange: Exchange = request.state.exchange
    found = await control_plane.client.list(exchange.context.cluster, MAPS)
    return {"cluster": exchange.context.cluster, "user": exchange.context.user.name, "configMaps": len(found.items)}


def named(app: Callable[..., Awaitable[None]], name: str) -> Callable[..., Awaitable[None]]:
    """ASGI middleware: each answer names the server."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"server", name.encode())]}
            await send(message)

        await app(scope, receive, sending)

    return call


control_plane.add_middleware(named, name="fleet")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with control_plane:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/k8s", control_plane)


@app.get("/")
async def index() -> dict[str, str]:
    return {"api": "/k8s"}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
