"""A client that speaks ASGI to an application, without a network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
import pytest

from kcp_py.server.chain import ASGIApplication
from kcp_py.server.exchange import Exchange


class Answer(NamedTuple):
    """What an application sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    complete: bool

    def header(self, name: str) -> str | None:
        found = [value.decode("latin-1") for key, value in self.headers if key == name.encode()]
        assert len(found) < 2, f"{name} is repeated"
        return found[0] if found else None

    def values(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key == name.encode()]

    def json(self) -> Any:
        return orjson.loads(self.body)


Ask = Callable[..., Awaitable[Answer]]


async def _ask(
    app: Any,
    target: str | bytes = "/",
    *,
    method: str = "GET",
    headers: Sequence[tuple[str | bytes, str | bytes]] = (),
    body: bytes | Sequence[bytes] = b"",
    peer: bytes | None = None,
    disconnect: bool = False,
    root_path: str = "",
    state: Mapping[str, Any] = MappingProxyType({}),
) -> Answer:
    raw = target if isinstance(target, bytes) else target.encode()
    path, _, query = raw.partition(b"?")
    chunks = [body] if isinstance(body, bytes) else list(body)
    incoming: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": disconnect or at < len(chunks) - 1} for at, chunk in enumerate(chunks)
    ]
    outgoing: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        outgoing.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "root_path": root_path,
        "headers": [(_bytes(name).lower(), _bytes(value)) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 6443),
        "state": {"peer_certificate": peer, **state},
    }
    edge = app if isinstance(app, ASGIApplication) else ASGIApplication(app, _no_pages)
    await edge(scope, receive, send)
    starts = [message for message in outgoing if message["type"] == "http.response.start"]
    bodies = [message for message in outgoing if message["type"] == "http.response.body"]
    assert len(starts) <= 1, "two responses"
    if not starts:
        return Answer(0, [], b"", complete=False)
    complete = bool(bodies) and not bodies[-1].get("more_body", False)
    return Answer(starts[0]["status"], list(starts[0]["headers"]), b"".join(item.get("body", b"") for item in bodies), complete)


async def _no_pages(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("filters alone have no lifespan")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


@pytest.fixture
def ask() -> Ask:
    """`await ask(app, "/path?query", method=…, headers=…, body=…, peer=…)`; `app` is a whole edge, or a handler that is to get one."""
    return _ask


async def lifespan(app: Any) -> list[str]:
    """Start an application up and shut it down; what it answered."""
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return sent


class Probe:
    """An innermost handler that remembers the exchanges that reached it and answers 200."""

    def __init__(self) -> None:
        self.seen: list[Exchange] = []

    async def __call__(self, exchange: Exchange) -> None:
        self.seen.append(exchange)
        await exchange.respond(200, b"{}")

    @property
    def last(self) -> Exchange:
        return self.seen[-1]


@pytest.fixture
def probe() -> Probe:
    return Probe()
