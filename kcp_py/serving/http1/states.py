"""States of `RequestReader`, and why it holds bytes."""

from __future__ import annotations

from enum import Enum


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
