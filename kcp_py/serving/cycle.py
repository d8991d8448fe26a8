"""`Cycle`: one request and its response between a connection and an ASGI application (https://asgi.readthedocs.io, version 3.0)."""

from __future__ import annotations

import asyncio
from asyncio import Transport
from typing import Any, Final, Protocol

import structlog

from kcp_py.serving.context import ASGIApp, ServerState
from kcp_py.serving.flow import FlowControl
from kcp_py.serving.http1.responses import ResponseWriter

_PIECE_BYTES: Final = 512 * 1024
"""Larger bodies go out in pieces of this size."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FAILED: Final = b"Internal Server Error"
_FAILED_HEADERS: Final = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21"), (b"connection", b"close")]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")


class CycleConnection(Protocol):
    """The methods of a connection that a cycle calls."""

    @property
    def transport(self) -> Transport: ...

    @property
    def flow(self) -> FlowControl: ...

    @property
    def server_state(self) -> ServerState: ...

    @property
    def abandons_body(self) -> bool:
        """Whether the rest of the request will not be read behind a response that begins now."""

    @property
    def client_left(self) -> bool:
        """Whether the client has ended its side, of which the application was told."""

    def want_body(self) -> None:
        """The application takes the body, or has begun an answer that may take long."""

    def response_complete(self) -> None:
        """All of the response is written."""


class Cycle:
    """One request and its response.

    Attributes:
        scope: of ASGI, until it is passed to the application.
        response: the writing side.
        body_wanted: whether the application has asked for the body.
        more_body: whether the request is not complete.
        disconnected: whether the client is gone, or will get no answer.
        lingers: whether the connection ends behind the response because of what the client may still send. It is then closed only when the
            client had time to read the response.
    """

    __slots__ = (
        "_at_once",
        "_body",
        "_change",
        "_changed",
        "_connection",
        "_expects_continue",
        "_task",
        "body_wanted",
        "disconnected",
        "lingers",
        "more_body",
        "response",
        "scope",
    )

    _task: asyncio.Task[None]

    def __init__(
        self,
        scope: dict[str, Any],
        connection: CycleConnection,
        response: ResponseWriter,
        expects_continue: bool,  # noqa: FBT001 - made with every request, where keywords cost
    ) -> None:
        """Begin behind the head of the request.

        Args:
            scope: of ASGI.
            connection: the request came on.
            response: not started.
            expects_continue: whether the client waits for `100 Continue`.
        """
        self.scope = scope
        self.response = response
        self._connection = connection
        self._expects_continue = expects_continue
        self._body: bytes | bytearray = b""
        self._at_once = False
        # Whether `receive` has an answer: a part of the body, its end, or the end of the connection.
        self._changed = False
        # Set with it; made only where `receive` has to wait, which most requests never do.
        self._change: asyncio.Event | None = None
        self.body_wanted = False
        self.more_body = True
        self.disconnected = False
        self.lingers = False

    def start(self, app: ASGIApp, loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[None]]) -> None:
        """Let the application answer, in a task that is among `tasks` while it runs."""
        # It takes itself away: a callback for that would cost each request a turn of the event loop.
        self._task = task = loop.create_task(self._run(app, tasks))
        tasks.add(task)

    async def _run(self, app: ASGIApp, tasks: set[asyncio.Task[None]]) -> None:
        response = self.response
        try:
            answer = app(self.scope, self.receive, self.send)
            # From here on the application holds the scope, for as long as it needs it: a watch does not.
            del self.scope
            await answer
        except asyncio.CancelledError:
            await self._fail()
            raise
        except Exception:  # noqa: BLE001 - logged; a fault of the application must not end the connection without an answer
            _log.exception("application_failed")
            await self._fail()
        else:
            if not response.complete and not self.disconnected:
                # A stream whose client has left ends without its last chunk.
                if not (response.started and self._connection.client_left):
                    _log.error("application_failed", reason="the application returned without completing its response")
                await self._fail()
        finally:
            tasks.discard(self._task)
            del self._task

    async def _fail(self) -> None:
        if self.response.started:
            self._connection.transport.close()
        else:
            await self.send({"type": "http.response.start", "status": 500, "headers": _FAILED_HEADERS})
            await self.send({"type": "http.response.body", "body": _FAILED})

    # What the connection reports

    def add_body(self, data: bytes) -> int:
        """Take a part of the request's body. Returns how many bytes wait for the application."""
        waiting = self._body
        if not waiting:
            self._body = data
        elif isinstance(waiting, bytearray):
            waiting += data
        else:
            self._body = bytearray(waiting) + data
        self._wake()
        return len(self._body)

    def take_whole(self, body: bytes) -> None:
        """Take all of the body, before the application is started. The reader of the connection keeps none of it.

        Args:
            body: of a request that does not wait for `100 Continue`; empty for a request without one.
        """
        self._body = body
        self._changed = self._at_once = True
        self.more_body = False

    def end_body(self) -> None:
        """The request is complete."""
        self.more_body = False
        self._wake()

    def disconnect(self) -> None:
        """The client is gone, or will get no answer."""
        if not self.response.complete:
            self.disconnected = True
        self._wake()

    def _wake(self) -> None:
        self._changed = True
        if self._change is not None:
            self._change.set()

    # ASGI

    async def receive(self) -> dict[str, Any]:
        """The next part of the body, or `http.disconnect` behind the end of the response or of the connection."""
        connection = self._connection
        if self._expects_continue and not self.disconnected and not connection.transport.is_closing():
            connection.transport.write(_CONTINUE)
            self._expects_continue = False
        if not self.disconnected and not self.response.complete:
            if not self.body_wanted:
                self.body_wanted = True
                connection.want_body()
            if connection.flow.read_paused:
                connection.flow.resume_reading()
            if not self._changed:
                if self._change is None:
                    self._change = asyncio.Event()
                await self._change.wait()
            self._changed = False
            if self._change is not None:
                self._change.clear()
        if self.disconnected or self.response.complete:
            return {"type": "http.disconnect"}
        body, self._body = self._body, b""
        return {"type": "http.request", "body": bytes(body), "more_body": self.more_body}

    def take_body(self) -> bytes | None:
        """The body, if all of it has come and none of it was taken.

        It is not of ASGI, and is found like `write_chunk`: nearly all bodies have come with their heads, and need no message.

        Returns:
            None where `receive` has to be used.
        """
        if self.more_body or self.body_wanted or self._expects_continue or self.disconnected or self.response.complete:
            return None
        connection = self._connection
        self.body_wanted = True
        if not self._at_once:
            # The request is complete, so that nothing is held for it; the reader may keep its events.
            connection.want_body()
        if connection.flow.read_paused:
            connection.flow.resume_reading()
        self._changed = False
        body, self._body = self._body, b""
        return body if type(body) is bytes else bytes(body)

    async def send(self, message: Any) -> None:
        """Write a part of the response. Returns once the connection takes more; after a disconnect it does nothing."""
        flow = self._connection.flow
        if flow.write_paused and not self.disconnected:
            await flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.abort":
            # As if the network had failed, for tests of clients. It is not a message of ASGI.
            self.disconnect()
            self._connection.transport.abort()
            return
        if message["type"] == "http.response.start":
            self._start(message)
            return
        if message["type"] != "http.response.body":
            raise RuntimeError(f"not a message of ASGI for HTTP: {message['type']}")
        body = message.get("body", b"")
        if len(body) > _PIECE_BYTES:
            # The transport copies and encrypts each write at once, and keeps it until the client has read it.
            last = (len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
            for start in range(0, last, _PIECE_BYTES):
                self._write(body[start : start + _PIECE_BYTES], more=True)
                await asyncio.sleep(0)
                if flow.write_paused and not self.disconnected:
                    await flow.drain()
                if self.disconnected:
                    return
            body = body[last:]
        self._write(body, more=message.get("more_body", False))

    def write_response(self, status: int, lines: bytes, body: bytes) -> bool:
        """Write all of a response at once. Nearly all responses are of this kind.

        It is not of ASGI, and is found like `write_chunk`.

        Args:
            status: of a response with a body.
            lines: header fields, as `ResponseWriter.whole` takes them.
            body: the whole.

        Returns:
            False where `send` has to be used: the client does not read, the body is large, or the method is HEAD.
        """
        connection = self._connection
        if connection.flow.write_paused or self.disconnected:
            return False
        response = self.response
        if self.more_body:
            if self._expects_continue or connection.abandons_body:
                return False
            self.lingers = not response.keep_alive
        data = response.whole(status, lines, body, connection.server_state.default_headers)
        if data is None:
            return False
        self._expects_continue = False
        connection.transport.write(data)
        if self._change is not None:
            self._wake()
        connection.response_complete()
        return True

    def write_chunk(self, chunk: bytes) -> bool:
        """Write a chunk of a body in chunks at once.

        It is not of ASGI. An application finds it as a method of the object that `send` is a method of, unless middleware wraps `send`.

        Args:
            chunk: not empty, with its framing (RFC 9112, 7.1), so that many responses share the bytes.

        Returns:
            False where `send` has to be used: the client does not read, the body has another form, or the response does not go on.
        """
        connection = self._connection
        if connection.flow.write_paused or self.disconnected or not self.response.takes_chunks:
            return False
        connection.transport.write(chunk)
        return True

    def _start(self, message: Any) -> None:
        response = self.response
        connection = self._connection
        if response.started:
            raise RuntimeError("a response has one head")
        if self.more_body and (self._expects_continue or connection.abandons_body):
            # RFC 9112, 9.6, and RFC 9110, 10.1.1: the rest is not read, or it is not known whether there will be one.
            response.keep_alive = False
        self._expects_continue = False
        head = response.start(message["status"], message.get("headers", ()), connection.server_state.default_headers)
        if head:
            connection.transport.write(head)
            # The answer may take long, and the body is read behind any answer.
            connection.want_body()
        self.lingers = self.more_body and not response.keep_alive

    def _write(self, body: bytes, *, more: bool) -> None:
        response = self.response
        transport = self._connection.transport
        for part in response.body(body, more=more):
            transport.write(part)
        if response.error is not None:
            raise RuntimeError(response.error)
        if response.complete:
            if self._change is not None:
                self._wake()
            self._connection.response_complete()
