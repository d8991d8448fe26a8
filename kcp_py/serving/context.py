"""`ServerContext`: what the connections of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from kcp_py.serving.http1.events import Header
from kcp_py.serving.http1.limits import ReadLimits
from kcp_py.serving.http1.responses import HeadCache
from kcp_py.serving.parsing import HeadBudget, ParsingQueue
from kcp_py.serving.records import Buffer

ASGIApp = Callable[..., Awaitable[None]]


class StoppableConnection(Protocol):
    """What the server asks of a connection."""

    def shutdown(self) -> None:
        """The server stops: end what can end now, and the rest behind the response in progress."""

    def end_if_revoked(self) -> bool:
        """End a stream when the authority of the client's certificate is not accepted any more. Returns whether that is so."""


class ServerState(Protocol):
    """What connections and the server tell each other.

    Attributes:
        connections: that are open.
        tasks: of requests in progress.
        total_requests: how many requests have been answered.
        default_headers: of all responses; replaced, never changed.
    """

    connections: set[StoppableConnection]
    tasks: set[asyncio.Task[None]]
    total_requests: int
    default_headers: Sequence[Header]


class ServerContext:
    """What the connections of a server share. Use one in one event loop, which has to run in the thread that makes this object.

    Attributes:
        app: the application.
        answer_http: its method of this name, for applications that have one: what a call of the application for an HTTP request awaits.
            Otherwise the application.
        app_state: what its lifespan has put into `scope["state"]`.
        limits: of what clients send.
        loop: the event loop.
        state: of the server.
        head_budget: the memory for incomplete heads.
        large_heads, long_framings: connections whose received bytes are parsed in turn.
    """

    __slots__ = (
        "answer_http",
        "app",
        "app_state",
        "buffer",
        "head_budget",
        "heads",
        "large_heads",
        "limits",
        "long_framings",
        "loop",
        "state",
    )

    def __init__(
        self,
        app: ASGIApp,
        state: ServerState,
        limits: ReadLimits,
        *,
        app_state: Mapping[str, Any] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.app = app
        # An object that passes on the attributes of an application, such as middleware, has another call.
        self.answer_http: ASGIApp = getattr(app, "answer_http") if hasattr(type(app), "answer_http") else app  # noqa: B009 - of any application
        self.app_state = {} if app_state is None else app_state
        self.limits = limits
        self.loop = loop or asyncio.get_running_loop()
        self.state = state
        self.heads = HeadCache()
        self.buffer = Buffer()
        self.head_budget = HeadBudget()
        self.large_heads = ParsingQueue()
        self.long_framings = ParsingQueue(places=None)
