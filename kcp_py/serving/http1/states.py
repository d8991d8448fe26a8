"""States of `RequestReader`, why it holds bytes, and its limits."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """The part of a request that is read next."""

    OPENED = "opened"
    IDLE = "idle"
    HEAD = "head"
    BODY = "body"
    COMPLETE = "complete"
    DRAINING = "draining"
    CLOSED = "closed"


class Hold(Enum):
    """Why received bytes are not parsed yet, and what must happen before they are."""

    RESPONSE = "the request before has no response yet: `response_complete`"
    BODY = "the application has not asked for the chunked body: `want_body`"
    TURN = "other connections have their turns first: `resume`"
    HEAD_TURN = "a large head waits for its turn: `resume(turn=True)`"
    FRAMING_TURN = "a body that brings no payload waits for its turn: `resume(turn=True)`"


class ReadLimits(NamedTuple):
    """Limits of what clients send.

    Attributes:
        max_head_bytes: of request line and header fields together. Up to one read more may be buffered.
        head_timeout: seconds until a head is complete.
        idle_timeout: seconds between two requests.
    """

    max_head_bytes: int
    head_timeout: float
    idle_timeout: float
