"""ASGI middleware of a program around the whole server, and its failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import orjson
import structlog

from kcp_py.apimachinery.errors import internal
from kcp_py.registry.uid import new_uid
from kcp_py.server.bodyreader import ClientDisconnectedError
from kcp_py.server.chain import ASGIApp
from kcp_py.telemetry.programcode import failed_function, passes

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Middleware = Callable[[ASGIApp], ASGIApp]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.server")


def wrap(application: ASGIApp, middleware: Sequence[Middleware]) -> ASGIApp:
    """The application within its middleware, of which the last one is the outermost."""
    for one in middleware:
        application = one(application)
    return Contained(application) if middleware else application


class Contained:
    """Answers requests whose middleware fails, with 500. Failures behind it have their answers already."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._application(scope, receive, noting)
        except ClientDisconnectedError:
            return
        except BaseException as error:
            if passes(error):
                raise
            audit_id, method = new_uid(), scope["method"]
            _log.exception("request_failed", audit_id=audit_id, method=method, status=0, function=failed_function(error))
            if not started:
                await _answer(send, audit_id)


async def _answer(send: Send, audit_id: str) -> None:
    error = internal("the server could not complete the request; the audit id of the response finds the cause in its log")
    body: bytes = orjson.dumps(error.to_status())
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"audit-id", audit_id.encode()),
    ]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
