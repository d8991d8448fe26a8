"""`upgrade_of`: whether a request takes its connection over from HTTP, and the protocol that gets it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kcp_py.serving.clientauthorities import PeerCertificate
from kcp_py.serving.connectionlimits import ConnectionSlot
from kcp_py.serving.context import ServerContext
from kcp_py.serving.http1.events import Request
from kcp_py.serving.scope import offers_watch_socket

if TYPE_CHECKING:
    from kcp_py.serving.tunnel import Tunnel
    from kcp_py.serving.websocket import WatchSocket


class Upgrade(NamedTuple):
    """The end of HTTP on a connection."""

    protocol: WatchSocket | Tunnel
    """The successor of the connection."""
    start: Callable[[asyncio.Transport, bytes], None]
    """Begins, with the bytes behind the head of the request."""


def upgrade_of(
    request: Request, context: ServerContext, scope: dict[str, Any], *, slot: ConnectionSlot | None, peer: PeerCertificate | None
) -> Upgrade | None:
    """The upgrade that a request asks for; None where its offer is ignored.

    Args:
        request: offers an upgrade.
        context: of the server.
        scope: of ASGI. The successor has a callback of its own for the end of the connection.
        slot: of the connection.
        peer: the certificate of the client.
    """
    # Few servers ever need either.
    if (serve := getattr(context.app, "tunnel", None)) is not None:
        from kcp_py.serving.tunnel import Tunnel  # noqa: PLC0415

        del scope["state"]["on_disconnect"]
        tunnel = Tunnel(context, scope, slot, peer=peer)
        return Upgrade(tunnel, partial(_start_tunnel, tunnel, serve))
    if offers_watch_socket(request):
        from kcp_py.serving.websocket import WatchSocket  # noqa: PLC0415

        del scope["state"]["on_disconnect"]
        socket = WatchSocket(context, scope, slot, peer=peer)
        return Upgrade(socket, socket.start)
    return None


def _start_tunnel(tunnel: Tunnel, serve: Any, transport: asyncio.Transport, received: bytes) -> None:
    tunnel.start(transport, received, serve)
