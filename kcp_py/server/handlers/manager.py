"""Who a write is by, as far as the owners of fields are concerned."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.meta.options import CreateOptions, manager_or_user_agent
from kcp_py.registry.store import FieldManager
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend

_UNKNOWN: Final = "unknown"


def manager_of(backend: Backend, exchange: Exchange, options: CreateOptions) -> FieldManager:
    """The field manager that the request names, else its client.

    Args:
        backend: for the time.
        exchange: the request.
        options: of the write.
    """
    agent = exchange.headers.get(b"user-agent", b"").decode("latin-1")
    return FieldManager(manager_or_user_agent(options.field_manager, agent) or _UNKNOWN, backend.access.now())
