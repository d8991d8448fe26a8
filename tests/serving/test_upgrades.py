from __future__ import annotations

from typing import Any

import pytest
from uvicorn.server import ServerState

from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.events import Request
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.tunnel import Tunnel
from kcp_py.serving.upgrades import upgrade_of
from kcp_py.serving.websocket import WatchSocket

pytestmark = pytest.mark.anyio

WATCH = b"/api/v1/watch/pods"


class Tunnelling:
    async def __call__(self, scope, receive, send):
        del scope, receive, send

    async def tunnel(self, tunnel):
        del tunnel


async def plain(scope, receive, send):
    del scope, receive, send


@pytest.mark.parametrize(
    ("app", "path", "protocol", "expected"),
    [
        pytest.param(plain, WATCH, b"websocket", WatchSocket, id="a watch over WebSocket"),
        pytest.param(plain, WATCH, b"h2c", None, id="another protocol"),
        pytest.param(plain, b"/version", b"websocket", None, id="neither a watch nor a subresource"),
        pytest.param(Tunnelling(), b"/version", b"h2c", Tunnel, id="an application that takes connections over"),
    ],
)
async def test_successors(app, path, protocol, expected):
    """Offers that nothing takes are ignored. A successor has no callback of the connection before it."""
    state: Any = ServerState()
    context = ServerContext(app, state, ReadLimits(max_head_bytes=1000, head_timeout=60, idle_timeout=60))
    headers = [(b"host", b"x"), (b"connection", b"upgrade"), (b"upgrade", protocol)]
    request = Request(b"GET", path, b"", "1.1", headers, 0, False, True, True)
    scope: dict[str, Any] = {"type": "http", "method": "GET", "scheme": "http", "headers": headers, "state": {"on_disconnect": None}}
    upgrade = upgrade_of(request, context, scope, slot=None, peer=None)
    assert (type(upgrade.protocol) if upgrade is not None else None) is expected
    assert ("on_disconnect" in scope["state"]) is (expected is None)
