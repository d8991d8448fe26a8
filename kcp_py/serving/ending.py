"""`Ending`: how a connection ends so that its client can read the last answer, and how little is read meanwhile."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kcp_py.serving.cycle import Flow
from kcp_py.serving.records import DISCARDED_BYTES, Buffer, discard

LINGER: Final = 0.5
"""Seconds that a client has to read an answer before the connection is closed with bytes of it unread, and to answer the end of TLS."""
DISCARD_SECONDS: Final = 2.0
"""Seconds more for which the rest of a body is thrown away: a busy client needs them to send it, and reads the answer behind it."""
UNREAD_SECONDS: Final = 5.0
"""Seconds for which a client may read nothing of what waits for it while the server stops."""

_LAST_WRITE: Final = 0.01
_MAX_LINGERS: Final = 20


class Unread:
    """What a client leaves unread, by looks at it every `LINGER` seconds while the server stops."""

    __slots__ = ("_looks", "_unsent")

    def __init__(self) -> None:
        self._unsent = 0
        self._looks = 0

    def stands_still(self, unsent: int) -> bool:
        """Whether nothing was read for `UNREAD_SECONDS`: the client would take all of the grace period.

        Args:
            unsent: bytes that wait to be sent now.
        """
        self._looks = self._looks + 1 if 0 < self._unsent <= unsent else 0
        self._unsent = unsent
        return self._looks * LINGER >= UNREAD_SECONDS


class Ending(HttpToolsProtocol):
    """The end of a connection. For subclasses, which set `buffer`."""

    __slots__ = ("_linger_timer",)

    buffer: ClassVar[Buffer]

    flow: Flow
    _linger_timer: TimerHandle | None

    def shutdown(self) -> None:
        super().shutdown()
        self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    def _linger(self) -> None:
        """Close the connection once the client had time to read what was sent: a close with unread bytes resets the connection."""
        self.flow.hold()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger_timer = self.loop.call_later(LINGER, self._close_after_linger)

    def _close_after_linger(self) -> None:
        if self.scheme == "https" and self.transport.get_read_buffer_size():  # type: ignore[attr-defined]
            # The end of TLS in order would decrypt what the client goes on sending.
            self._discard(self.loop.time() + DISCARD_SECONDS, DISCARDED_BYTES)
            return
        self.transport.close()
        # TLS tells the client of the end with the next write, and would then read on for as long as the client does not answer.
        self._linger_timer = self.loop.call_later(_LAST_WRITE, self._abort_when_flushed)

    def _discard(self, until: float, most: int) -> None:
        """Throw away what the client sends: many read the answer behind the last byte, and only where they could send it."""
        gone = discard(self.transport.get_extra_info("socket").fileno(), self.buffer, most)
        if gone is None or gone >= most or self.loop.time() >= until:
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(_LAST_WRITE, self._discard, until, most - gone)

    def _abort_when_flushed(self, lingers: int = 0, unread: Unread | None = None) -> None:
        closing = self.transport.is_closing()
        unsent = self.transport.get_write_buffer_size()
        unread = unread or Unread()
        if (closing and (lingers == _MAX_LINGERS or not unsent)) or unread.stands_still(unsent):
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed, lingers + closing, unread)
