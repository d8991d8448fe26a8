"""ASGI middleware around the whole server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kcp_py import ControlPlane, Options

pytestmark = pytest.mark.anyio


def noting(application: Any, name: str, seen: list[str]) -> Any:
    """Notes each request on its way in, before anything else has looked at it."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        seen.append(f"{name} {scope['type']} {scope.get('path', '')}")
        await application(scope, receive, send)

    return call


async def test_the_last_one_that_is_added_is_the_outermost() -> None:
    """It sees requests before authentication, with the path as it was sent."""
    cp, seen = ControlPlane(Options(storage="memory"), batteries=()), list[str]()
    cp.add_middleware(noting, name="inner", seen=seen)
    cp.add_middleware(noting, name="outer", seen=seen)
    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(app=cp.app), base_url="http://server") as http:
        assert (await http.get("/clusters/a/apis")).status_code == 403
    assert seen == ["outer http /clusters/a/apis", "inner http /clusters/a/apis"]
    with pytest.raises(RuntimeError, match="before it is entered"):
        cp.add_middleware(noting)
