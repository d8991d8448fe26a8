"""`ParsingShare`: what one connection takes of a server's bounds for requests that are costly to parse. The bounds are in `parsing`."""

from __future__ import annotations

from kcp_py.serving.addresses import client_of
from kcp_py.serving.context import ServerContext
from kcp_py.serving.parsing import QueuedConnection


class ParsingShare:
    """The places of one connection in the queues for turns, and its part of the memory for incomplete heads.

    Attributes:
        head_bytes: counted bytes of a head that is not complete.
        in_large_heads: whether the connection waits for turns for a large head, or has them.
    """

    __slots__ = ("_context", "_host", "head_bytes", "in_large_heads")

    def __init__(self, context: ServerContext, host: str) -> None:
        """Begin with nothing.

        Args:
            context: of the server.
            host: address of the client; empty where it has none, and no limits for one address.
        """
        self._context = context
        self._host = host
        self.head_bytes = 0
        self.in_large_heads = False

    @property
    def _client(self) -> str:
        """The client address for limits; empty for a client without."""
        return client_of(self._host) if self._host else ""

    def count_head(self, count: int) -> bool:
        """Count the bytes of an incomplete head. Returns whether there is room for them.

        Args:
            count: all bytes of the head that have come; 0 for a head that is complete.
        """
        budget = self._context.head_budget
        client = self._client
        before = self.head_bytes
        if count < before:
            self.head_bytes = 0
            budget.release(client, before)
            before = 0
        if count > before:
            if not budget.acquire(client, count - before):
                return False
            self.head_bytes = count
        return True

    def want_head_turn(self, connection: QueuedConnection) -> None:
        """Give the connection a turn for a large head later."""
        self.in_large_heads = True
        self._context.large_heads.want(connection, self._client)

    def want_framing_turn(self, connection: QueuedConnection) -> None:
        """Give the connection a turn for a body without payload later."""
        self._context.long_framings.want(connection)

    def head_complete(self, connection: QueuedConnection) -> None:
        """The large head is complete: the connection needs no more turns for it."""
        self.in_large_heads = False
        self._context.large_heads.leave(connection)

    def begin_framing_turn(self, connection: QueuedConnection) -> None:
        """The connection has its turn. A body without payload has its place only while it waits, unlike a large head."""
        self._context.long_framings.leave(connection)

    def release(self, connection: QueuedConnection) -> None:
        """Give everything back."""
        if self.head_bytes:
            self.count_head(0)
        self.head_complete(connection)
        self._context.long_framings.leave(connection)
