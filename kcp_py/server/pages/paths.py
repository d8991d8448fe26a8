"""Who tells the index at `/` what the resource tree serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kcp_py.server.exchange import Exchange

Paths = Callable[[Exchange], Awaitable[Sequence[str]]]
"""The paths of the resource tree in the cluster of a request."""


async def no_paths(_exchange: Exchange) -> Sequence[str]:
    """Where there is no tree, there are none."""
    return ()
