"""`RequestReader`: the requests of one connection, read one after the other. A state machine without I/O and without a clock.

Bytes go in with the time at which they came, `events` come out. What a client may make the server wait for is a `deadline`, and received
bytes that must not be parsed yet are kept with the reason, `hold`. The connection obeys both. Module `states` describes the states.

Limits, in addition to those of `ReadLimits`:

* A chunked body has at most `max_head_bytes` without payload (chunk sizes, chunk extensions, trailer section) in a row. In all it has at
  most as many plus `OVERHEAD_PER_BYTE` for each byte of payload.
* Of a request that was answered before its end, `DRAIN_BYTES` more are read, so that small ones leave the connection usable.

Bytes are parsed in slices, none of which holds bytes of two requests.

Sources: RFC 9112, sections 2.2, 6.3, 7.1 and 9.6; the limits of chunked bodies and of reading behind a response follow Go's `net/http`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import httptools

from kcp_py.serving.http1.events import CONNECTION_CLOSED, END_OF_MESSAGE, Data, Event, Refusal, Request
from kcp_py.serving.http1.headfields import HeadFields
from kcp_py.serving.http1.limits import (
    CHUNKED_SLICE_BYTES,
    DRAIN_BYTES,
    DRAIN_SECONDS,
    HEAD_SLICE_BYTES,
    SLICES_PER_TURN,
    UNREAD_BYTES,
    ReadLimits,
)
from kcp_py.serving.http1.refusals import HEAD_TOO_LARGE, INVALID, refusal_of
from kcp_py.serving.http1.repeated import RepeatedFields, WholeRequest
from kcp_py.serving.http1.requestline import RequestLine
from kcp_py.serving.http1.slices import CHUNKED, Slices
from kcp_py.serving.http1.states import Hold, State

_BODILESS: Final = frozenset((b"GET", b"HEAD"))
"""Methods whose bodies have no meaning. They are read all the same, since reading shows when the client leaves."""

OPENED: Final = State.OPENED
IDLE: Final = State.IDLE
HEAD: Final = State.HEAD
BODY: Final = State.BODY
COMPLETE: Final = State.COMPLETE
DRAINING: Final = State.DRAINING
CLOSED: Final = State.CLOSED

_HOLD_BODY: Final = Hold.BODY
_NO_EVENTS: Final[tuple[()]] = ()


class RequestReader:
    """The reading side of one connection.

    Attributes:
        state: the part of a request that is read next.
        hold: why received bytes wait; None where none do. Nothing more should be received meanwhile.
        deadline: when the client must have sent what the state waits for, in seconds of the caller's clock; None for no limit.
        head_bytes: received bytes of a head that is not complete.
        long_body: whether the rest of the request will not be read behind a response that begins now, so that the connection must end.
    """

    __slots__ = (
        "_body",
        "_eof",
        "_events",
        "_head",
        "_held",
        "_limits",
        "_line",
        "_parser",
        "_repeated",
        "_search",
        "_slices",
        "_timed",
        "_wanted",
        "deadline",
        "head_bytes",
        "hold",
        "long_body",
        "on_header",
        "on_url",
        "state",
    )

    _parser: httptools.HttpRequestParser | None
    _events: list[Event]

    def __init__(self, limits: ReadLimits, now: float) -> None:
        """Begin with a new connection.

        Args:
            limits: of the server.
            now: the time.
        """
        self._limits = limits
        self.state = OPENED
        self.hold: Hold | None = None
        self.deadline: float | None = now + limits.head_timeout
        # The state that the deadline was set for.
        self._timed: State | None = HEAD
        self.head_bytes = 0
        self.long_body = False
        self._line = RequestLine()
        self._head = head = HeadFields()
        # For the parser.
        self.on_url = head.on_url
        self.on_header = head.on_header
        self._parser = parser = httptools.HttpRequestParser(self)
        # Pipelined requests behind one with `Connection: close` are not an error; they are never parsed.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._held = b""
        self._eof = False
        self._body: list[bytes] = []
        # Whether the application takes a chunked body.
        self._wanted = True
        self._slices = slices = Slices(limits.max_head_bytes)
        self._search = slices.search
        self._repeated = RepeatedFields()

    @property
    def is_complete(self) -> bool:
        """Whether all of the request has come."""
        return self.state is COMPLETE

    # What the connection reports

    def receive(self, data: bytes, now: float) -> list[Event] | WholeRequest | tuple[()]:
        """Take received bytes, not empty. The events of a whole request, behind which nothing is held, may come as a `WholeRequest`."""
        if self.head_bytes:
            self.head_bytes += len(data)
        if self._held:
            self._held += data
            return _NO_EVENTS
        if self.state is IDLE and self._repeated.known and not self._search.tail and (events := self._repeated.read(data)) is not None:
            # As the parser would leave it. What the slices have counted of empty lines before it, `response_complete` forgets.
            self.state = COMPLETE
            self._timed = self.deadline = None
            self._wanted = True
            self.long_body = len(events) == 3 and len(events[1].data) > DRAIN_BYTES
            return events
        return self._parse(data, now, turn=False)

    def receive_eof(self, now: float) -> Sequence[Event]:
        """The client has ended its side. It may still read the response to a request that is complete (RFC 9112, 9.6)."""
        self._eof = True
        return self._parse(b"", now, turn=False) if self.hold is None else _NO_EVENTS

    def resume(self, now: float, *, turn: bool = False) -> Sequence[Event]:
        """Parse bytes that were held.

        Args:
            now: the time.
            turn: whether the connection has been given a turn that others wait for.
        """
        if self.hold is None:
            return _NO_EVENTS
        data, self._held = self._held, b""
        self.hold = None
        return self._parse(data, now, turn=turn)

    def want_body(self, now: float) -> Sequence[Event]:
        """The application takes the body, or has begun to answer."""
        self._wanted = True
        # The caller has the last events. Without this, they would be kept until more is received, which a watch may never do.
        self._events = []
        return self.resume(now) if self.hold is _HOLD_BODY else _NO_EVENTS

    def response_complete(self, now: float) -> Sequence[Event]:
        """The response is complete: the next request may follow."""
        if self.state is COMPLETE:
            if self._line.is_complete or self._slices.cut or self._slices.gap:
                self._next()
            # Of a request that was recognized, the line and the slices have seen nothing.
            self.state = self._timed = IDLE
            self.deadline = now + self._limits.idle_timeout
        elif self.state is BODY:
            self.state = DRAINING
            self._wanted = True
            self._slices.gap = 0
            self._set_deadline(now)
        else:
            return _NO_EVENTS
        if self._eof and self.hold is None:
            return self._parse(b"", now, turn=False)
        return _NO_EVENTS

    def forget_fields(self) -> None:
        """Keep no header section to compare the next one with: the response may take long, and there may be many such connections."""
        self._repeated.forget()

    def close(self) -> bytes:
        """Read nothing more. Returns the bytes that were received and not parsed."""
        self.state = CLOSED
        self.hold = self.deadline = None
        self.head_bytes = 0
        held, self._held = self._held, b""
        return held

    def release(self) -> None:
        """`close`, and let go of the parser, which holds this object: otherwise only the cycle collector would free the two."""
        self.close()
        self._parser = None
        self._repeated.forget()

    # Slices

    def _parse(self, data: bytes, now: float, *, turn: bool) -> list[Event] | tuple[()]:
        if self.state is CLOSED or self._parser is None:
            return _NO_EVENTS
        events: list[Event] = []
        self._events = events
        slices = self._slices
        size = len(data)
        start = parsed = 0
        if self.state is IDLE or self.state is OPENED:
            end = slices.whole_head(data)
            if end:
                start = self._feed(data if end == size else data[:end], 0)
                if start < 0:
                    return events
                if events and type(head := events[0]) is Request:
                    self._repeated.learn(data[:end], head)
        while start < size:
            if slices.left > 0 and self.state is BODY:
                # A body of known length has no limit here.
                end = min(start + slices.left, size)
                slices.left -= end - start
                start = self._feed(data[start:end], start)
                if start < 0:
                    return events
                continue
            hold = self._hold_before(size - start, parsed, turn=turn)
            if hold is not None:
                self.hold = hold
                self._held = data[start:]
                break
            end = slices.next(data, start, self.state)
            if not end:
                return self._refuse(HEAD_TOO_LARGE)
            piece = data if end - start == size else data[start:end]
            if self._line.is_complete or self.state is BODY or self.state is DRAINING:
                start = self._feed(piece, start)
            else:
                line = self._line.take(piece)
                if line is None:
                    return self._refuse(INVALID)
                if line:
                    start = self._feed(line, end - len(line))
                else:
                    start = end
                    if self.state is not HEAD:
                        self.on_message_begin()
            if start < 0:
                return events
            parsed += 1
        if self._eof and self.hold is None and self.state is not COMPLETE:
            self.close()
            events.append(CONNECTION_CLOSED)
            return events
        if self.state is HEAD and not self.head_bytes:
            self.head_bytes = size
        self._set_deadline(now)
        return events

    def _feed(self, data: bytes, start: int) -> int:
        """Parse a slice that begins at `start` of the received bytes. Returns where it ends; -1 where it is refused."""
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The parser stops behind the head. Where the upgrade is ignored, the next request follows.
            return start + int(upgrade.args[0])
        except httptools.HttpParserError as error:
            if self._body:
                self._flush_body()
            self._refuse(refusal_of(error.__context__))
            return -1
        if self._body:
            self._flush_body()
        return start + len(data)

    def _hold_before(self, size: int, parsed: int, *, turn: bool) -> Hold | None:
        """Why the next slice must not be parsed now.

        Args:
            size: bytes that are not parsed yet.
            parsed: slices that were parsed in this turn of the event loop.
            turn: whether the connection has been given a turn.
        """
        state = self.state
        slices = self._slices
        if state is BODY or state is DRAINING:
            if not self._wanted:
                self.long_body = size > UNREAD_BYTES
                return Hold.BODY
            if slices.left == CHUNKED and slices.gap >= CHUNKED_SLICE_BYTES and (parsed == SLICES_PER_TURN or not turn):
                # Trailers and the like are of no use: the connections that send them share the time that one would get.
                return Hold.FRAMING_TURN
        elif state is COMPLETE:
            return Hold.RESPONSE
        elif (slices.cut or (state is HEAD and slices.gap >= HEAD_SLICE_BYTES)) and (parsed or not turn):
            return Hold.HEAD_TURN
        return Hold.TURN if parsed == SLICES_PER_TURN else None

    def _refuse(self, response: bytes) -> list[Event]:
        # In DRAINING the response is complete.
        refusal = Refusal(b"" if self.state is DRAINING else response)
        self.close()
        self._events.append(refusal)
        return self._events

    def _set_deadline(self, now: float) -> None:
        """Set the deadline of the state, where the state has changed since the last one was set."""
        state = self.state
        timed: State | None = state
        if state is OPENED:
            timed = HEAD
        elif state is COMPLETE or (state is BODY and (self._slices.left != CHUNKED or not self._slices.gap)):
            timed = None
        if timed is self._timed:
            return
        self._timed = timed
        if timed is None:
            self.deadline = None
        elif timed is IDLE:
            self.deadline = now + self._limits.idle_timeout
        elif timed is DRAINING:
            self.deadline = now + DRAIN_SECONDS
        else:
            self.deadline = now + self._limits.head_timeout

    def _next(self) -> None:
        self.state = IDLE
        if self._line.is_complete:
            self._line = RequestLine()
        self._slices.cut = False
        self._slices.gap = 0

    def _flush_body(self) -> None:
        parts = self._body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._slices.left == CHUNKED:
            self._slices.count_payload(len(body))
        self._events.append(Data(body))
        self._body = []

    # What the parser calls

    def on_message_begin(self) -> None:
        """The first byte of a request line."""
        if self.state is HEAD and self._line.begun:
            # The request has begun with a part of its method.
            return
        if self.state is not IDLE and self.state is not OPENED:
            raise ValueError("a request begins in the middle of another one")
        self.state = HEAD
        self._slices.gap = 0
        self._head.headers = []

    def on_headers_complete(self) -> None:
        """The end of the head."""
        assert self._parser is not None
        request = self._head.complete(self._parser, self._line.method)
        length = request.length
        self.state = BODY
        self._timed = self.deadline = None
        self.head_bytes = 0
        self._slices.begin_body(length)
        self._wanted = length is not None or request.method in _BODILESS
        self.long_body = length is not None and length > DRAIN_BYTES
        self._events.append(request)
        if not request.keep_alive:
            # The parser takes nothing behind this request.
            self._repeated.forget()

    def on_body(self, body: bytes) -> None:
        """Payload of the body."""
        if self.state is BODY:
            self._timed = self.deadline = None
            self._body.append(body)

    def on_message_complete(self) -> None:
        """The end of the request."""
        if self._body:
            self._flush_body()
        self._slices.end_message()
        if self.state is DRAINING:
            self._next()
        else:
            self.state = COMPLETE
            self._events.append(END_OF_MESSAGE)
