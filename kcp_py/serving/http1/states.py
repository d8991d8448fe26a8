"""States of `RequestReader` with their deadlines, and why it holds bytes.

    OPENED --> HEAD --> BODY --> COMPLETE --> IDLE --> HEAD ...
                          |                    ^
                          +---> DRAINING ------+            from anywhere: --> CLOSED

| state | meaning | deadline: what happens then |
|---|---|---|
| `OPENED` | nothing of a first request has come | `head_timeout` from the beginning of the connection: abort |
| `IDLE` | nothing of a next request has come | `idle_timeout` from the last response: close |
| `HEAD` | a head has begun | `head_timeout` from its beginning, or of `OPENED`: abort |
| `BODY` | the head is complete, the body is not | chunked, no payload since `head_timeout`: abort |
| `COMPLETE` | the request is complete and has no response yet | |
| `DRAINING` | the response is complete, the request is not | `limits.DRAIN_SECONDS` from the response: end the connection |
| `CLOSED` | nothing more is read | |
"""

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
