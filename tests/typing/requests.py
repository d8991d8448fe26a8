"""A filter of a program, as a class and as a function."""

from collections.abc import Awaitable
from typing import Any, assert_type

from kcp_py import ControlPlane, Exchange, Filter, Handler, Name, Options, RequestContext, RequestInfo, errors


class Counter:
    """Counts requests by logical cluster."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}

    def __call__(self, handler: Handler) -> Handler:
        """Wrap a handler; nothing is awaited, so that no coroutine is needed."""

        def count(exchange: Exchange) -> Awaitable[None]:
            cluster = str(exchange.context.cluster)
            self.requests[cluster] = self.requests.get(cluster, 0) + 1
            return handler(exchange)

        return count


def closed(handler: Handler) -> Handler:
    """Refuses writes, and answers one path itself."""

    async def call(exchange: Exchange) -> None:
        assert_type(exchange.context, RequestContext)
        assert_type(exchange.context.info, RequestInfo)
        if exchange.path == "/motd":
            await exchange.respond(200, b'{"text":"closed"}')
        elif exchange.context.info.verb not in {"get", "list", "watch"}:
            raise errors.service_unavailable("closed", retry_after_seconds=60)
        else:
            await handler(exchange)
            assert_type(exchange.status, int)

    return call


async def main() -> None:
    """Ask the application without a server; the caller is unknown and refused, and reaches no filter but for the version."""
    counter = Counter()
    filters: list[Filter] = [counter, closed]
    async with ControlPlane(Options(storage="memory"), filters=filters) as control_plane:
        assert [await _status(control_plane, path) for path in ("/version", "/motd", "/clusters/a/version")] == [200, 403, 200]
    assert counter.requests == {Name("root"): 1, Name("a"): 1}


async def _status(control_plane: ControlPlane, path: str) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
    await control_plane.app(scope, receive, send)
    status: int = sent[0]["status"]
    return status
