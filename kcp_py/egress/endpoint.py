"""Endpoints, their answers, and the error of calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple


class CallError(Exception):
    """The call has no usable answer."""


class Service(NamedTuple):
    """A reference to a `Service` of core/v1."""

    namespace: str
    name: str
    port: int
    cluster: str = ""
    """The logical cluster whose configuration refers to the service. Empty for conversion webhooks, which clusters share."""


ServiceResolver = Callable[[Service], Awaitable[tuple[str, int] | None]]
"""Returns the host and port of a service, or None if it does not exist."""


class Endpoint(NamedTuple):
    """The receiver of a call. Equal endpoints share connections."""

    url: str
    """`https://host[:port][/path]`."""
    authorities: bytes = b""
    """PEM certificates of the trusted authorities; empty for the authorities of the system."""
    service: Service | None = None
    """The service that the host of the URL represents, if any."""


class Answer(NamedTuple):
    """The answer of an endpoint."""

    status: int
    body: bytes


@dataclass(slots=True)
class Attempt:
    """A request on its way."""

    connected: bool = False
    """Whether a connection was opened for it."""


ATTEMPT: Final[ContextVar[Attempt | None]] = ContextVar("attempt", default=None)
"""The request of the current task, which the library for connections does not tell."""
