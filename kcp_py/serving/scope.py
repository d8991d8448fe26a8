"""The ASGI scope of a request."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

from kcp_py.serving.http1.events import Request

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


def http_scope(
    request: Request,
    app_state: dict[str, Any],
    scheme: str,
    *,
    server: tuple[str, int | None] | None,
    client: tuple[str, int] | None,
) -> dict[str, Any]:
    """Make the scope of a request over HTTP.

    Args:
        request: as it was read.
        app_state: what the application finds in `scope["state"]`; copied.
        scheme: `http` or `https`.
        server: host and port at which the connection arrived.
        client: host and port of the client.
    """
    path = request.raw_path.decode("ascii")
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": request.version,
        "server": server,
        "client": client,
        "scheme": scheme,
        "root_path": "",
        "method": request.method.decode("ascii"),
        "path": unquote(path) if "%" in path else path,
        "raw_path": request.raw_path,
        "query_string": request.query,
        "headers": request.headers,
        "state": app_state.copy(),
    }


def offers_watch_socket(request: Request) -> bool:
    """Whether a request that offers an upgrade goes on over WebSocket: watches and subresources do, other offers are ignored."""
    if b"watch" not in request.raw_path and b"watch" not in request.query and not _names_subresource(request.raw_path):
        return False
    if request.method != b"GET" or request.version != "1.1":
        return False
    return dict(request.headers).get(b"upgrade", b"").strip().lower() == b"websocket"


def _names_subresource(path: bytes) -> bool:
    """Whether a path has the form of that of a subresource, or goes on behind it."""
    parts = path.split(b"/")[1:]
    if parts[:1] == [b"clusters"]:
        del parts[:2]
    del parts[: {b"api": 2, b"apis": 3}.get(parts[0] if parts else b"", len(parts))]
    if parts[:1] == [b"namespaces"]:
        del parts[:2]
    return len(parts) >= 3
