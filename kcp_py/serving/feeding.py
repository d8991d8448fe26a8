"""`Feeding`: hands received bytes to the parser in pieces, in turn with other connections, and within the limits of `Intake`."""

from __future__ import annotations

from abc import abstractmethod
from asyncio import TimerHandle
from typing import ClassVar, Final

import httptools

from kcp_py.serving.cycle import Cycle
from kcp_py.serving.ending import Ending
from kcp_py.serving.heads import HeadBytes, LargeHeads
from kcp_py.serving.intake import BODY, CLOSED, DRAIN_SECONDS, DRAIN_TIMER, DRAINING, HEAD, NO_TIMER, WAITING, Intake
from kcp_py.serving.seats import client_of

UNREAD_BYTES: Final = 8 * 1024
"""The longest part of a chunked body that is still parsed where the request was answered without a look at it."""

_PIECES: Final = 8
"""Pieces of a chunked body that are parsed in one turn of the event loop."""
_HEAD_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_TOO_MANY_HEADS: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_INVALID_BODY: Final = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Invalid HTTP request received.",'
    b'"reason":"BadRequest","code":400}\n'
)
_INVALID: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (
    len(_INVALID_BODY),
    _INVALID_BODY,
)


class TooManyFieldsError(Exception):
    """Raised in a callback of the parser."""


class Feeding(Ending):
    """What arrives on a connection. For subclasses, which have the parser's callbacks and set the limits."""

    __slots__ = ("_head_bytes", "_held", "_intake", "_timer", "_timer_kind", "_upgrading")

    head_timeout: ClassVar[float]
    head_bytes: ClassVar[HeadBytes]
    large_heads: ClassVar[LargeHeads]
    long_framings: ClassVar[LargeHeads]

    cycle: Cycle
    _head_bytes: int
    _held: bytes
    _intake: Intake
    _timer: TimerHandle | None
    _timer_kind: int
    _upgrading: bool

    @property
    def reads_body(self) -> bool:
        """Whether what comes next belongs to a body that the application has asked for."""
        return self._intake.phase == BODY and self.cycle.asked

    def data_received(self, data: bytes) -> None:
        if self._head_bytes and not self._take_head_bytes(len(data)):
            return
        if self._held:
            self._held += data
        else:
            self._feed(data)

    def _feed(self, data: bytes, *, turn: bool = False) -> None:
        intake = self._intake
        size = len(data)
        start = pieces = 0
        while start < size and intake.phase != CLOSED:
            if intake.in_large_head and (pieces or not turn):
                self._hold(data[start:])
                self.large_heads.want(self)
                break
            if intake.phase != HEAD and self._waits(data, start, pieces=pieces, turn=turn):
                break
            if pieces == _PIECES:
                # Many chunks take several turns of the loop.
                self._hold(data[start:])
                self.loop.call_soon(self._feed_held)
                break
            end = intake.piece(data, start)
            if not end:
                self._refuse(_HEAD_TOO_LARGE)
                return
            try:
                self.parser.feed_data(data if end - start == size else data[start:end])
            except httptools.HttpParserUpgrade as upgrade:
                end = start + upgrade.args[0]
                if self._upgrading:
                    self._go_on_as_websocket(data[end:])
                    return
                # RFC 9110, 7.8: an upgrade may be ignored. What follows is then the next request.
            except httptools.HttpParserError as error:
                self._refuse(_HEAD_TOO_LARGE if isinstance(error.__context__, TooManyFieldsError) else _INVALID)
                return
            start = end
            pieces += 1
        if intake.phase == HEAD and intake.in_head and not self._head_bytes and not self._take_head_bytes(size):
            return
        if intake.phase != WAITING or self._timer is not None:
            self._set_timer()

    def _waits(self, data: bytes, start: int, *, pieces: int, turn: bool) -> bool:
        """Hold what follows a head where it must not be parsed now."""
        intake = self._intake
        if intake.phase == WAITING:
            # Pipelined requests are parsed and answered one after the other.
            self._hold(data[start:])
            return True
        if intake.phase == BODY and self.cycle.on_asked is not None:
            # A chunked body is not parsed before it is wanted.
            self._hold(data[start:])
            self.cycle.long_body = len(data) - start > UNREAD_BYTES
            return True
        if intake.in_long_framing and (pieces == _PIECES or not turn):
            # Trailers and the like are of no use: the connections that send them share the time that one would get.
            self._hold(data[start:])
            self.long_framings.want(self)
            return True
        return False

    @abstractmethod
    def _go_on_as_websocket(self, rest: bytes) -> None:
        """Hand the connection over behind the head of a request that asked for it.

        Args:
            rest: what came behind the head.
        """

    def _take_head_bytes(self, count: int) -> bool:
        """Count received bytes of a head that is not complete, or refuse the request."""
        if self.head_bytes.take(self._client_address(), count):
            self._head_bytes += count
            return True
        self._refuse(_TOO_MANY_HEADS)
        return False

    def _give_head_bytes_back(self) -> None:
        if self._head_bytes:
            self.head_bytes.give_back(self._client_address(), self._head_bytes)
            self._head_bytes = 0

    def _client_address(self) -> str:
        return client_of(self.client[0]) if self.client is not None else ""

    def take_turn(self) -> None:
        """Parse the next piece of a large head, or the next ones of a body of framing."""
        # Unlike large heads, such bodies have a place for the time that they wait only.
        self.long_framings.leave(self)
        data, self._held = self._held, b""
        if data:
            self.flow.release()
            self._feed(data, turn=True)

    def _hold(self, data: bytes) -> None:
        """Keep received bytes for later, and read no more until then."""
        self._held = data
        self.flow.hold()

    def _feed_held(self) -> None:
        data, self._held = self._held, b""
        if data:
            self.flow.release()
            self._feed(data)

    def _refuse(self, answer: bytes) -> None:
        """End the connection because of what the client sent, with an answer unless one has begun."""
        cycle = self.cycle
        if self._intake.phase == DRAINING:
            answer = b""
        elif cycle is not None and not cycle.response_complete:  # type: ignore[redundant-expr] # None before the first request
            if cycle.response_started:
                answer = b""
            # The application may be at work on the request: it cannot answer any more.
            cycle.disconnected = True
            cycle.message_event.set()
        if answer:
            self.transport.write(answer)
        self._end()

    def _end(self) -> None:
        """Read nothing more, and close the connection once the client had time to read what was sent."""
        self._intake.close()
        self._held = b""
        self._give_head_bytes_back()
        self.large_heads.leave(self)
        self.long_framings.leave(self)
        self._stop_timer()
        self._linger()

    def _set_timer(self) -> None:
        """Let the timer run that the state asks for, and no other."""
        kind = self._intake.timer
        if kind == self._timer_kind:
            return
        self._stop_timer()
        self._timer_kind = kind
        if kind == DRAIN_TIMER:
            self._timer = self.loop.call_later(DRAIN_SECONDS, self._end)
        elif kind:
            self._timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        self._timer_kind = NO_TIMER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
