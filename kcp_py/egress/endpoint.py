"""What is called, what it answers, and the one error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class CallError(Exception):
    """There is no usable answer."""


class Service(NamedTuple):
    """A reference to a `Service` of core/v1."""

    namespace: str
    name: str
    port: int


ServiceResolver = Callable[[Service], Awaitable[tuple[str, int] | None]]
"""From a service to the host and port that serve it; None where there is no such service. What it names is called, whatever the networks
that tenants may name: it is the operator's word."""


class Endpoint(NamedTuple):
    """What is called. Equal endpoints share connections."""

    url: str
    """`https://host[:port][/path]`."""
    authorities: bytes = b""
    """PEM certificates that the server's certificate is checked with; empty for those of the system."""
    service: Service | None = None
    """Where the URL's host stands for a service."""


class Answer(NamedTuple):
    """What an endpoint answered."""

    status: int
    body: bytes
