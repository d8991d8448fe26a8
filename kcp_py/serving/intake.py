"""`Intake`: how much of what a client sends is read, and what must arrive in time; a state machine without I/O and without a clock.

`Connection` asks it where the next piece of the received bytes ends, tells it what the parser found in that piece, and asks which timer has
to run. A piece never holds bytes of two requests, so one request is parsed at a time and the bytes of the next one stay as they are.

Limits:

* A head has at most `max_head_bytes` in the piece that it begins in (`PIECE_BYTES` where that is more), and as many behind it.
* A chunked body has at most as many bytes without payload (chunk sizes, chunk extensions, trailer section) in a row. In all it has at most
  as many plus `OVERHEAD_PER_BYTE` for each byte of payload.
* Of a request that was answered before its end, `DRAIN_BYTES` more are read, so that small ones leave the connection usable.

Sources: RFC 9112, sections 2.2, 6.3, 7.1 and 9.6; the limits of chunked bodies and of what is read after an answer follow Go's `net/http`.
"""

from __future__ import annotations

from typing import Final

DRAIN_BYTES: Final = 16 * 1024
"""What is read of a request behind its answer."""
DRAIN_SECONDS: Final = 5.0
"""How long that may take."""
OVERHEAD_PER_BYTE: Final = 8
"""Bytes of framing for each byte of payload: a chunk of one byte has five."""
PIECE_BYTES: Final = 4096
"""The longest piece of a chunked body: chunks are small objects to the parser, so a turn of the event loop gets few of them."""
LIGHT_HEAD_BYTES: Final = 32 * 1024
"""The longest piece of a head. A head that has more than one is large."""

HEAD: Final = 0
"""Between requests, or in the head of one."""
BODY: Final = 1
"""The head is complete, the body is not."""
WAITING: Final = 2
"""The request is complete and has no answer yet: nothing more is parsed."""
DRAINING: Final = 3
"""The answer is complete, the request is not."""
CLOSED: Final = 4
"""Nothing more is read."""

NO_TIMER: Final = 0
HEAD_TIMER: Final = 1
"""A head, or bytes of a body that are no payload, must come to their end."""
DRAIN_TIMER: Final = 2
"""A request that was answered must come to its end."""

_END: Final = b"\r\n\r\n"
_CHUNKED: Final = -1


class Intake:
    """The state of one connection.

    Attributes:
        phase: `HEAD`, `BODY`, `WAITING`, `DRAINING` or `CLOSED`.
    """

    __slots__ = ("_begun", "_cut", "_gap", "_left", "_max_head_bytes", "_new", "_overhead", "_payload", "_tail", "phase")

    def __init__(self, max_head_bytes: int) -> None:
        self._max_head_bytes = max_head_bytes
        self.phase = HEAD
        self._new = True
        # Whether the parser has found the beginning of the head.
        self._begun = False
        # Whether a piece of the head ended because of its length.
        self._cut = False
        # Bytes of the body that have not come yet.
        self._left = 0
        # Bytes since the beginning of the head, or since the last payload, or since the answer.
        self._gap = 0
        self._overhead = 0
        self._payload = 0
        # The last bytes of an unfinished head or chunked body: its end may be cut between two reads.
        self._tail = b""

    @property
    def timer(self) -> int:
        """Which timer has to run now: `NO_TIMER`, `HEAD_TIMER` or `DRAIN_TIMER`."""
        phase = self.phase
        if phase == DRAINING:
            return DRAIN_TIMER
        if (phase == HEAD and (self._begun or self._new)) or (phase == BODY and self._left == _CHUNKED and self._gap):
            return HEAD_TIMER
        return NO_TIMER

    @property
    def in_large_head(self) -> bool:
        """Whether a head has begun that is longer than one piece."""
        return self.phase == HEAD and (self._cut or self._gap >= LIGHT_HEAD_BYTES)

    @property
    def in_head(self) -> bool:
        """Whether a head has begun and is not complete."""
        return self.phase == HEAD and self._begun

    @property
    def in_long_framing(self) -> bool:
        """Whether a chunked body has brought nothing but framing, or nothing that is of use behind an answer, for longer than a piece."""
        return self._left == _CHUNKED and self._gap >= PIECE_BYTES

    def piece(self, data: bytes, start: int) -> int:
        """Where the next piece of received bytes ends.

        Args:
            data: not empty behind `start`.
            start: where the piece begins.

        Returns:
            An index in `data`; 0 where a limit is exceeded and nothing more may be read.
        """
        left = self._left
        if left > 0:
            end = min(start + left, len(data))
        elif self._tail:
            end = self._end_across(data, start)
        else:
            end = data.find(_END, start) + len(_END)
            if end < len(_END):
                end = len(data)
                self._tail = data[-3:] if end - start > 3 else data[start:]
        most = PIECE_BYTES if left == _CHUNKED else LIGHT_HEAD_BYTES if self.phase == HEAD else end
        if end - start > most:
            end = start + most
            self._cut = True
            self._tail = data[end - 3 : end]
        return end if self._take(end - start) else 0

    def _end_across(self, data: bytes, start: int) -> int:
        """The end of a piece where an end of a head or of a chunked body may have begun with `_tail`."""
        tail = self._tail
        self._tail = b""
        across = (tail + data[start : start + 3]).find(_END)
        if across >= 0:
            return start + across + len(_END) - len(tail)
        found = data.find(_END, start)
        if found >= 0:
            return found + len(_END)
        self._tail = (tail + data[max(start, len(data) - 3) :])[-3:]
        return len(data)

    def _take(self, count: int) -> bool:
        phase = self.phase
        if phase == HEAD:
            if not self._begun:
                return count <= max(self._max_head_bytes, PIECE_BYTES)
            self._gap += count
            return self._gap <= self._max_head_bytes
        if phase == BODY:
            # What is payload of this piece is not known yet: what came before is judged.
            if self._left > 0:
                self._left -= count
                return True
            most = self._max_head_bytes
            fits = self._gap <= most and self._overhead <= most + OVERHEAD_PER_BYTE * self._payload
            self._gap += count
            self._overhead += count
            return fits
        if self._left > 0:
            self._left -= count
        self._gap += count
        return self._gap <= DRAIN_BYTES

    # What the parser finds

    def begin(self) -> None:
        """A head begins."""
        self._begun = True
        self._gap = 0

    def head_complete(self, length: int | None) -> None:
        """A head ends.

        Args:
            length: of the body in bytes; None for a chunked one.
        """
        self.phase = BODY
        self._begun = self._new = self._cut = False
        self._left = _CHUNKED if length is None else length
        self._gap = self._overhead = self._payload = 0

    def payload(self, count: int) -> None:
        """Bytes of the body were found in the piece."""
        if self.phase == BODY:
            self._gap = 0
            self._overhead -= count
            self._payload += count

    def complete(self) -> None:
        """The request ends."""
        self._left = 0
        self._tail = b""
        if self.phase == DRAINING:
            self._next()
        else:
            self.phase = WAITING

    # What the connection does

    def answered(self) -> bool:
        """The answer is complete. Returns whether the request is, too."""
        if self.phase == BODY:
            self.phase = DRAINING
            self._gap = 0
            return False
        if self.phase == WAITING:
            self._next()
        return True

    def close(self) -> None:
        """Nothing more is read."""
        self.phase = CLOSED

    def _next(self) -> None:
        self.phase = HEAD
        self._begun = self._cut = False
        self._gap = 0
