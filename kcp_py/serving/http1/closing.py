"""`Closing`: how a connection ends so that its client can read the last response. A state machine without I/O and without a clock.

A connection that is closed with unread bytes is reset, and the client may lose the response. So the end has steps, each with a deadline:

    LINGERING --> DISCARDING --> (abort)      the response is complete, the client may still be sending
        |
        +-------> FLUSHING ----> (abort)      the transport is closed and sends the rest; also where the server stops

* `LINGERING`: the client has `LINGER_SECONDS` to read the response. Nothing is read.
* `DISCARDING`: over TLS, where the client goes on sending: the end of TLS in order would decrypt all of it. What arrives is thrown away for
  `DISCARD_SECONDS`, since many clients read the response only behind the last byte of their request.
* `FLUSHING`: looks every `LINGER_SECONDS` whether anything is left to send.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

LINGER_SECONDS: Final = 0.5
"""The time that a client has to read a response before the connection is closed with bytes of it unread, and to answer the end of TLS."""
DISCARD_SECONDS: Final = 2.0
"""How long the rest of a body is thrown away: a busy client needs the time to send it."""
DISCARDED_BYTES: Final = 16 * 1024 * 1024
"""How much is thrown away at most. Most bodies have 3 MiB."""
UNREAD_SECONDS: Final = 5.0
"""How long a client may read nothing of what waits for it while the server stops."""

_LAST_WRITE_SECONDS: Final = 0.01
_MAX_LOOKS: Final = 20


class Action(Enum):
    """What the connection does at a deadline."""

    WAIT = "nothing"
    CLOSE = "close the transport, which sends the rest"
    DISCARD = "throw away what has arrived, and report it with `discarded`"
    ABORT = "abort the transport"


class _Step(Enum):
    OPEN = "open"
    LINGERING = "lingering"
    DISCARDING = "discarding"
    FLUSHING = "flushing"


class StallDetector:
    """Tells clients that read slowly from those that read nothing, by looks at the unsent bytes every `LINGER_SECONDS`."""

    __slots__ = ("_looks", "_unsent")

    def __init__(self) -> None:
        self._unsent = 0
        self._looks = 0

    def is_stalled(self, unsent: int) -> bool:
        """Whether the client has read nothing for `UNREAD_SECONDS`.

        Args:
            unsent: bytes that wait to be sent now.
        """
        self._looks = self._looks + 1 if 0 < self._unsent <= unsent else 0
        self._unsent = unsent
        return self._looks * LINGER_SECONDS >= UNREAD_SECONDS


class Closing:
    """The end of one connection.

    Attributes:
        deadline: when `expired` is due, in seconds of the caller's clock; None before the end begins and behind it.
        left: bytes that may still be thrown away.
    """

    __slots__ = ("_looks", "_stall", "_step", "_until", "deadline", "left")

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._step = _Step.OPEN
        self._stall: StallDetector | None = None
        # Looks at a closed transport.
        self._looks = 0
        self._until = 0.0
        self.left = DISCARDED_BYTES

    def linger(self, now: float) -> None:
        """The last response is written and nothing more is read."""
        self._step = _Step.LINGERING
        self.deadline = now + LINGER_SECONDS

    def flush(self, now: float) -> None:
        """The server stops. Responses in progress go on as long as their clients read."""
        if self._step is _Step.OPEN:
            self._step = _Step.FLUSHING
            self.deadline = now + LINGER_SECONDS

    def expired(self, now: float, *, unsent: int, closing: bool, unread: bool) -> Action:
        """The deadline has passed.

        Args:
            now: the time.
            unsent: bytes that the transport has still to send.
            closing: whether the transport is closed, and sends the rest.
            unread: whether bytes have arrived that TLS has not decrypted.
        """
        if self._step is _Step.DISCARDING:
            return Action.DISCARD
        if self._step is _Step.LINGERING:
            if unread:
                self._step = _Step.DISCARDING
                self._until = now + DISCARD_SECONDS
                return Action.DISCARD
            self._step = _Step.FLUSHING
            # TLS tells the client of the end with the next write, and would then read on for as long as the client does not answer.
            self.deadline = now + _LAST_WRITE_SECONDS
            return Action.CLOSE
        if self._stall is None:
            self._stall = StallDetector()
        if (closing and (not unsent or self._looks == _MAX_LOOKS)) or self._stall.is_stalled(unsent):
            self.deadline = None
            return Action.ABORT
        self._looks += closing
        self.deadline = now + LINGER_SECONDS
        return Action.WAIT

    def discarded(self, count: int | None, now: float) -> Action:
        """Bytes were thrown away.

        Args:
            count: how many; None where the client has ended the connection.
            now: the time.
        """
        if count is None or count >= self.left or now >= self._until:
            self.deadline = None
            return Action.ABORT
        self.left -= count
        self.deadline = now + _LAST_WRITE_SECONDS
        return Action.WAIT

    def end(self) -> None:
        """The connection is gone."""
        self.deadline = None
