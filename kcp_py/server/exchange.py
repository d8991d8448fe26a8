"""`Exchange`: one request and its response. Filters fill it in, handlers read the body from it and answer through it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from kcp_py.apimachinery.errors import bad_request
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.authn.authenticator import NO_CREDENTIALS
from kcp_py.authz.impersonation import Wanted
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.context import RequestContext
from kcp_py.request.parameters import NO_PARAMETERS, Parameters, parameters_of
from kcp_py.request.requestinfo import UNPARSED, Query, RequestInfo
from kcp_py.request.user import UNKNOWN, UserInfo
from kcp_py.server.bodybudget import LIGHT_BYTES, LIGHT_DIGITS, BodyBudget
from kcp_py.server.bodyreader import MAX_BODY_BYTES, BodyReader
from kcp_py.server.compression import GZIP_HEADERS, GZIP_THRESHOLD_BYTES, compressed
from kcp_py.server.directwriting import body_taker, response_writer
from kcp_py.server.disconnection import DisconnectWatch
from kcp_py.server.longrequests import EndStream
from kcp_py.server.responsehead import JSON, Header, ordinary_lines, response_fields
from kcp_py.server.websocket import WebSocket

_SMALL_BODY_BYTES: Final = 64 * 1024
"""Put together faster than sent in pieces."""
_ABORTED: Final = 1011


class Exchange:
    """One request. Not frozen: the filters fill it in from the outside to the inside, then freeze what they learned as `context`.

    Attributes:
        scope: the ASGI scope.
        receive: the ASGI receive channel; use `read_body` and `on_disconnect` instead.
        send: the ASGI send channel; use `respond` and the other methods that answer instead.
        method: as sent.
        state: data of the server about the connection.
        headers: lower-case name to value; the first one where a name is repeated. `header_values` has all.
        audit_id: set by the errors filter, before anything can fail.
        cluster, explicit_cluster, path: set by the cluster filter; `path` is decoded and without the cluster prefix.
        info: set by the request-info filter, `UNPARSED` before.
        credentials: those that identified the caller, set by the authentication filter.
        impersonator: who makes the request, where it is made as another user.
        wanted_user: whom the impersonator asked to be.
        user: set by the authentication filter, together with `context`; `UNKNOWN` before.
        context: all of these, frozen.
        warnings: the list that `context.warnings` is.
        audit_annotations: the mapping that `context.audit_annotations` is.
        continuation: set by a handler that has started a long stream: the rest of it, carried out by `go_on` when every filter has
            returned. Thousands of idle watches then hold in memory neither the frames of all filters nor what these have learned.
        end: set with the continuation: ends the stream before its time. May be called once.
        leave: called when a request with a continuation has ended; set by `at_end`.
        on_end: set with the continuation by the telemetry filter; called once when the request has ended.
        resolved: set by the handler once the resource is known to exist; what metrics may name.
        status: of the response, 0 until it starts.
        finished: whether the response is complete.
        disconnected: whether the client is known to have left, which is known only where `on_disconnect` was asked for.
        has_duplicates: whether any header is repeated.
        websocket: the connection, of a request to go on over WebSocket.
    """

    __slots__ = (
        "_bodies",
        "_body",
        "_disconnecting",
        "_parameters",
        "_query",
        "_reader",
        "audit_annotations",
        "audit_id",
        "cluster",
        "context",
        "continuation",
        "credentials",
        "disconnected",
        "end",
        "explicit_cluster",
        "finished",
        "has_duplicates",
        "headers",
        "impersonator",
        "info",
        "leave",
        "method",
        "on_end",
        "path",
        "receive",
        "resolved",
        "scope",
        "send",
        "sent_bytes",
        "state",
        "status",
        "user",
        "wanted_user",
        "warnings",
        "websocket",
    )

    cluster: ClusterSelection
    explicit_cluster: bool
    path: str
    context: RequestContext

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, bodies: BodyBudget | None = None, *, websocket: WebSocket | None = None
    ) -> None:
        """Begin.

        Args:
            scope: of ASGI.
            receive: of ASGI.
            send: of ASGI.
            bodies: bounds what large bodies take; None where there is one request only.
            websocket: the connection, of a request to go on over WebSocket.
        """
        headers: list[Header] = scope["headers"]
        by_name = dict(headers)
        self.has_duplicates = duplicates = len(by_name) != len(headers)
        self.scope = scope
        self.receive = receive
        self.send = send
        self.method: str = scope["method"]
        # Servers that have nothing to say leave it out.
        self.state: dict[str, Any] = scope.get("state") or {}
        self.headers: dict[bytes, bytes] = dict(reversed(headers)) if duplicates else by_name
        self.websocket = websocket
        self.audit_id = ""
        self.info: RequestInfo = UNPARSED
        self.credentials = NO_CREDENTIALS
        self.user: UserInfo = UNKNOWN
        self.impersonator: UserInfo | None = None
        self.wanted_user: Wanted | None = None
        self.warnings: list[str] = []
        self.audit_annotations: dict[str, str] = {}
        self.resolved: GroupVersionResource | None = None
        self.status = self.sent_bytes = 0
        self.finished = self.disconnected = False
        self.continuation: Callable[[], Awaitable[None]] | None = None
        self.end: EndStream | None = None
        self.leave: Callable[[], None] | None = None
        self.on_end: Callable[[Exchange], None] | None = None
        self._parameters: Parameters | None = None
        self._query: Query | None = None
        self._bodies = bodies
        self._body: bytes | None = None
        self._reader: BodyReader | None = None
        self._disconnecting: DisconnectWatch | None = None

    @property
    def started(self) -> bool:
        """Whether the status line is out, so that no other answer can be given."""
        return self.status != 0

    @property
    def query(self) -> Query:
        """A copy of `parameters` that may be changed; those after it are what it has become.

        Raises:
            StatusError: 400, for a malformed query.
        """
        if self._query is None:
            self._query = self.parameters.copy()
        return self._query

    @property
    def parameters(self) -> Parameters:
        """The query parameters, for reading.

        Raises:
            StatusError: 400, for a malformed query.
        """
        if self._query is not None:
            return Parameters(self._query)
        if self._parameters is None:
            self._parameters = parameters_of(query) if (query := self.scope["query_string"]) else NO_PARAMETERS
        return self._parameters

    def header_values(self, name: bytes) -> Sequence[bytes]:
        """Every value of a header, in order. `name` is lower case."""
        if self.has_duplicates:
            return [value for key, value in self.scope["headers"] if key == name]
        return (self.headers[name],) if name in self.headers else ()

    # Request body

    async def read_body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole request body. It is read once and kept: a write may be retried.

        Args:
            limit: in bytes.

        Raises:
            StatusError: 413 above the limit, 400 for a malformed Content-Length, 429 where its turn does not come, 408 for a
                large body that comes too slowly.
            ClientDisconnectedError: the client left before the end.
        """
        if (body := self.body_at_hand(limit)) is None:
            reader = self._reader = BodyReader(self.receive, self.cluster, self._bodies)
            body = self._body = await reader.read(self.headers.get(b"content-length"), limit)
            if reader.place is None:
                # There is nothing to give back.
                self._reader = None
        return body

    def body_at_hand(self, limit: int) -> bytes | None:
        """The whole body, if it has come already and takes nothing of the budget: no reader is needed. Else None; see `read_body`."""
        if self._body is None:
            declared = self.headers.get(b"content-length", b"")
            if 0 < len(declared) <= LIGHT_DIGITS and limit >= LIGHT_BYTES and (take := body_taker(self.receive)) is not None:
                self._body = take()
        return self._body

    # Whole responses

    async def respond(self, status: int, body: bytes, content_type: bytes = JSON, headers: Iterable[Header] = ()) -> None:
        """Answer with one body.

        Adds Audit-Id, Cache-Control (unless given), Warning and Content-Length; compresses bodies above 128 KiB for clients that take gzip,
        off the event loop. For HEAD the body is left out.
        """
        if self._reader is not None:
            self._reader.rest()
        if not headers and not self.warnings and (write := response_writer(self.send)) is not None:
            lines = ordinary_lines(content_type)
            if lines and len(body) <= GZIP_THRESHOLD_BYTES and write(status, b"audit-id: %b%b" % (self.audit_id.encode(), lines), body):
                self.status = status
                self.finished = True
                self.sent_bytes = len(body)
                if self._disconnecting is not None:
                    self.release()
                return
        extra = (*headers, (b"content-length", b"%d" % len(body)))
        if (packed := await compressed((body,), self.headers)) is not None:
            body = packed
            extra = (*extra[:-1], *GZIP_HEADERS, (b"content-length", b"%d" % len(body)))
        self.status = status
        await self.send({"type": "http.response.start", "status": status, "headers": self._head(content_type, extra)})
        self.finished = True
        self.sent_bytes = len(body)
        await self.send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})
        if self._disconnecting is not None:
            self.release()

    async def respond_not_modified(self, headers: Sequence[Header]) -> None:
        """Answer 304: the client has the document already."""
        self.status = 304
        await self.send({"type": "http.response.start", "status": 304, "headers": [(b"audit-id", self.audit_id.encode()), *headers]})
        self.finished = True
        await self.send({"type": "http.response.body", "body": b""})

    async def respond_in_parts(
        self, status: int, parts: Sequence[bytes], content_type: bytes = JSON, headers: Iterable[Header] = ()
    ) -> None:
        """`respond` with a body in pieces, which large ones are not put together for; the connection says when it takes the next."""
        if self._reader is not None:
            self._reader.rest()
        size = sum(map(len, parts))
        if (packed := await compressed(parts, self.headers)) is not None:
            parts = (packed,)
            size = len(packed)
            headers = (*headers, *GZIP_HEADERS)
        elif len(parts) == 1 or size < _SMALL_BODY_BYTES or self.method == "HEAD":
            await self.respond(status, b"".join(parts), content_type, headers)
            return
        self.status = status
        head = self._head(content_type, (*headers, (b"content-length", b"%d" % size)))
        await self.send({"type": "http.response.start", "status": status, "headers": head})
        self.sent_bytes = size
        for part in parts[:-1]:
            await self.send({"type": "http.response.body", "body": part, "more_body": True})
        self.finished = True
        await self.send({"type": "http.response.body", "body": parts[-1]})
        if self._disconnecting is not None:
            self.release()

    def _head(self, content_type: bytes, extra: tuple[Header, ...]) -> list[Header]:
        return response_fields(self.audit_id, content_type, extra, self.warnings)

    # Streams

    async def start_stream(self, content_type: bytes = JSON, headers: Iterable[Header] = ()) -> None:
        """Send status 200 and the headers at once, before there is anything to stream: clients of watches wait for them.

        Raises:
            StatusError: 400 over WebSocket, where only watches are streamed.
        """
        if self.websocket is not None:
            raise bad_request("only watches are served over WebSocket")
        self.status = 200
        await self.send({"type": "http.response.start", "status": 200, "headers": self._head(content_type, tuple(headers))})
        await self.send({"type": "http.response.body", "body": b"", "more_body": True})

    async def send_chunk(self, chunk: bytes) -> None:
        """Send more of the stream. Returns once the connection takes more; after a disconnect it does nothing."""
        self.sent_bytes += len(chunk)
        await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def start_watch(self, content_type: bytes, *, prefix: int = 0) -> None:
        """`start_stream` for frames, which over WebSocket are messages.

        Args:
            content_type: of the stream.
            prefix: bytes at the beginning of each frame that give its length.

        Raises:
            StatusError: 400 or 403, the handshake is not acceptable.
        """
        if self.websocket is None:
            await self.start_stream(content_type)
            return
        self.websocket.check(self.headers)
        self.status = 101
        await self.websocket.accept(content_type, prefix)

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send more of a stream of frames, none of them empty; else as `send_chunk`."""
        if self.websocket is None:
            await self.send_chunk(frames[0] if len(frames) == 1 else b"".join(frames))
            return
        for frame in frames:
            self.sent_bytes += len(frame)
            await self.websocket.message(frame)

    async def finish(self) -> None:
        """End the stream cleanly."""
        self.release()
        self.finished = True
        if self.websocket is not None:
            await self.websocket.close()
            return
        await self.send({"type": "http.response.body", "body": b""})

    def go_on(self) -> Awaitable[None]:
        """The continuation, to be awaited. Data of the request that is not needed any more is freed."""
        assert self.continuation is not None
        stream = self.continuation()
        self.continuation = self._parameters = self._query = self._body = self.resolved = self.end = None
        self.info = UNPARSED
        self.wanted_user = None
        self.credentials = NO_CREDENTIALS
        del self.context, self.headers, self.scope, self.state
        return stream

    async def abort(self) -> None:
        """Cut the connection without an end of the response. A WebSocket is closed."""
        self.release()
        self.disconnected = True
        if self.websocket is not None:
            await self.websocket.close(_ABORTED)
            return
        await self.send({"type": "http.response.abort"})

    # Disconnection

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the client goes away, at the earliest in the next turn of the loop.

        The request body must have been read, or be of no interest: where the server offers no registration, a task reads the channel.
        """
        if self.disconnected:
            asyncio.get_running_loop().call_soon(callback)
            return
        if self._disconnecting is None:
            self._disconnecting = DisconnectWatch(self.state, self.receive, self._disconnected)
        self._disconnecting.add(callback)

    def _disconnected(self) -> None:
        self.disconnected = True

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when a request that goes on has ended, in whatever way."""
        before = self.leave
        self.leave = callback if before is None else partial(_call_both, before, callback)

    def release(self) -> None:
        """Stop watching the connection, and give back what the body held. Called at the end of every exchange; harmless when repeated."""
        if self.leave is not None:
            self.leave()
            self.leave = None
        if self._reader is not None:
            self._reader.leave()
        if self._disconnecting is not None:
            self._disconnecting.stop()
            self._disconnecting = None


def _call_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


Handler = Callable[[Exchange], Awaitable[None]]
"""Answers a request: a filter with all that it wraps, or what the innermost filter wraps."""
