"""Who a write is by, as far as the owners of fields are concerned."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kcp_py.apimachinery.meta.options import CreateOptions, manager_or_user_agent
from kcp_py.registry.store import FieldManager
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend

_UNKNOWN: Final = "unknown"
_CACHED_BYTES: Final = 256
"""Longer names of clients are not cached."""


def manager_of(backend: Backend, exchange: Exchange, options: CreateOptions) -> FieldManager:
    """The field manager that the request names, else its client.

    Args:
        backend: for the time.
        exchange: the request.
        options: of the write.
    """
    agent = exchange.headers.get(b"user-agent", b"")
    name = options.field_manager or (_name_of_client(agent) if len(agent) <= _CACHED_BYTES else _name(agent))
    return FieldManager(name, backend.access.now())


def _name(agent: bytes) -> str:
    return manager_or_user_agent("", agent.decode("latin-1")) or _UNKNOWN


_name_of_client: Final = lru_cache(maxsize=256)(_name)
"""Clients send the same User-Agent with each request."""
