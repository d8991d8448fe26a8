"""Servers that serve kinds of Kubernetes to the tests of plugins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options

CLUSTER = "/clusters/a"
CORE = f"{CLUSTER}/api/v1"


@asynccontextmanager
async def serving(tmp_path: Path, *kinds: str, **more: Any) -> AsyncIterator[Api]:
    """A server whose clusters have kinds of Kubernetes; `more` are options."""
    async with ControlPlane(options(tmp_path, builtin_kinds=kinds, **more)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def recorded(name: str) -> Any:
    """What kube-apiserver 1.37.2 answered."""
    return orjson.loads((Path(__file__).parent / "recorded" / f"{name}.json").read_bytes())


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
