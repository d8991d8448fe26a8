"""`ConnectionLimits`: how many connections may be open, in all and for one client address.

The only I/O is reading the limits of the process.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kcp_py.aio.sharedcounts import Counts, key_of
from kcp_py.serving.addresses import client_of

AUTOMATIC: Final = -1
"""As a limit for each address: half of the connections that there may be in all."""

_RESERVE: Final = 128
_FALLBACK_OPEN: Final = 64


class ConnectionLimits:
    """Counts open connections. Each has a `ConnectionSlot` from when it is accepted until it is closed.

    Attributes:
        on_free: called when a slot becomes free where there was none.
    """

    def __init__(self, *, total: int, per_address: int, counts: Counts | None = None) -> None:
        """Begin with no connection.

        Args:
            total: connections in all, at least one.
            per_address: of one client address, or of one IPv6 network of 64 bits; 0 for no limit, `AUTOMATIC` for half of `total`.
                Loopback addresses have no limit: a reverse proxy on the same machine stands for all of its clients.
            counts: has the connections of the other processes of the server; None for one process. `AUTOMATIC` is of each process, as
                `total` is.
        """
        self._total = self._free = total
        self._per_address = max(1, total // 2) if per_address == AUTOMATIC else per_address
        self._taken: dict[str, int] = {}
        self._counts = None if per_address == AUTOMATIC else counts
        self.on_free: Callable[[], None] = _nothing

    @property
    def taken(self) -> int:
        """The number of connections."""
        return self._total - self._free

    @property
    def full(self) -> bool:
        """Whether there may be no further connection."""
        return self._free <= 0

    def acquire(self, host: str) -> ConnectionSlot | None:
        """A slot for a connection from a client address; None if the address has its maximum of connections."""
        client = client_of(host)
        if self._per_address and client:
            taken = self._taken.get(client, 0)
            elsewhere = self._counts.total(_key(client)) if self._counts is not None else 0
            if taken + elsewhere >= self._per_address:
                return None
            self._taken[client] = taken + 1
            self._publish(client)
        else:
            client = ""
        self._free -= 1
        return ConnectionSlot(self, client)

    def release(self, client: str) -> None:
        """Called by the slot."""
        if client:
            left = self._taken[client] - 1
            if left:
                self._taken[client] = left
            else:
                del self._taken[client]
            self._publish(client)
        self._free += 1
        if self._free == 1:
            self.on_free()

    def _publish(self, client: str) -> None:
        if self._counts is not None:
            self._counts.set(_key(client), self._taken.get(client, 0))


class ConnectionSlot:
    """The place of one connection."""

    __slots__ = ("_client", "_limits")

    def __init__(self, limits: ConnectionLimits, client: str) -> None:
        self._limits: ConnectionLimits | None = limits
        self._client = client

    def release(self) -> None:
        """The connection is closed. Harmless when repeated."""
        limits, self._limits = self._limits, None
        if limits is not None:
            limits.release(self._client)


def raise_descriptor_limit() -> None:
    """Let the process have as many open files as it may ask for, as Go's runtime does: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_that_fit() -> int:
    """How many connections the limit on open files leaves room for, in addition to files that are open now and a reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    try:
        opened = sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        opened = _FALLBACK_OPEN
    return max(1, soft - opened - min(_RESERVE, soft // 4))


def _key(client: str) -> int:
    return key_of("connections", client)


def _nothing() -> None:
    """Called where a slot becomes free and nothing waits for one."""
