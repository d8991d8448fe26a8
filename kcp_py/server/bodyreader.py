"""`BodyReader`: reads the body of one request within the limits of its size, of memory and of time."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import Receive

from kcp_py.apimachinery.errors import StatusError, bad_request, too_large
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.server.bodybudget import LIGHT_BYTES, BodyBudget, Place

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The default limit of request bodies, as upstream's."""

_TOO_SLOW: Final = "Timeout: the request body did not arrive in time"


class ClientDisconnectedError(Exception):
    """The client left before the request was read or the response written: no response can be sent."""


class BodyReader:
    """The body of one request."""

    __slots__ = ("_budget", "_cluster", "_receive", "place")

    def __init__(self, receive: Receive, cluster: ClusterSelection, budget: BodyBudget | None) -> None:
        """Begin.

        Args:
            receive: of ASGI.
            cluster: whose share of the budget a large body takes.
            budget: bounds what large bodies take; None where there is one request only.
        """
        self._receive = receive
        self._cluster = cluster
        self._budget = budget
        self.place: Place | None = None
        """The place of a large body in the budget."""

    async def read(self, declared: bytes | None, limit: int) -> bytes:
        """The whole body. A large one waits for its turn before it is read, and again before it is returned.

        Args:
            declared: the Content-Length header.
            limit: in bytes; checked against Content-Length before anything is read, then against what arrives.

        Raises:
            StatusError: 413 above the limit, 400 for a malformed Content-Length, 429 where its turn does not come, 408 for a
                large body that comes too slowly.
            ClientDisconnectedError: the client left before the end.
        """
        if declared is not None:
            if not declared.isdigit():
                raise bad_request("invalid Content-Length")
            size = int(declared[:16])
            if size > limit:
                raise too_large(limit)
            if size > LIGHT_BYTES:
                await self._hold(size)
        message = await (self._receive() if self.place is None else self._receive_in_time(0))
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        if message.get("more_body", False):
            body = await self._read_rest(body, limit)
        if self.place is not None:
            await self.place.work(len(body))
        return body

    def rest(self) -> None:
        """The body is not worked on any more: the response begins."""
        if self.place is not None:
            self.place.rest()

    def leave(self) -> None:
        """The request has ended."""
        if self.place is not None:
            self.place.leave()
            self.place = None

    async def _hold(self, size: int) -> None:
        if self._budget is not None:
            place = self.place = Place(self._budget, str(self._cluster))
            await place.hold(size)

    async def _receive_in_time(self, size: int) -> Any:
        """The next part of the body, of which `size` bytes have come.

        Raises:
            StatusError: 408; the client holds space that others wait for, and sends too slowly.
        """
        if self.place is None:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self.place.deadline(size)):
                return await self._receive()
        except TimeoutError:
            raise StatusError(408, "Timeout", _TOO_SLOW) from None

    async def _read_rest(self, body: bytes, limit: int) -> bytes:
        chunks = [body]
        size = len(body)
        more = True
        while more:
            message = await self._receive_in_time(size)
            if message["type"] == "http.disconnect":
                raise ClientDisconnectedError
            body = message.get("body", b"")
            size += len(body)
            if size > limit:
                raise too_large(limit)
            if size > LIGHT_BYTES and self.place is None:
                # The size was not declared.
                await self._hold(limit)
            chunks.append(body)
            more = message.get("more_body", False)
        return b"".join(chunks)
