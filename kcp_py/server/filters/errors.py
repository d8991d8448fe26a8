"""`ErrorsFilter`: any exception becomes one Status, here and nowhere else."""

from __future__ import annotations

from typing import Final

import structlog

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.uid import new_uid
from kcp_py.server.bodyreader import ClientDisconnectedError
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.status import representation_of_errors, write_status
from kcp_py.telemetry.auditid import accepted_audit_id
from kcp_py.telemetry.programcode import failed_function, passes

_HIDDEN: Final = StatusError(
    500,
    "InternalError",
    "Internal error occurred: the server could not complete the request; the audit id of the response finds the cause in its log",
)


class ErrorsFilter:
    """The outermost filter: gives the exchange its audit id, and answers for everything that fails inside."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._log = structlog.get_logger("kcp_py.server")

    async def __call__(self, exchange: Exchange) -> None:
        given = exchange.headers.get(b"audit-id")
        exchange.audit_id = (accepted_audit_id(given) if given is not None else "") or new_uid()
        try:
            await self._handler(exchange)
            if exchange.continuation is not None:
                await exchange.go_on()
        except StatusError as error:
            # What the failed steps worked on, decoded bodies above all, must not wait for the client to read its answer.
            error.__traceback__ = error.__cause__ = error.__context__ = None
            await self._answer(exchange, error)
        except ClientDisconnectedError:
            return
        except BaseException as error:
            if passes(error):
                raise
            # The last door: nothing of it may reach the client.
            function = {"function": name} if (name := failed_function(error)) else {}
            audit_id, method = exchange.audit_id, exchange.method
            self._log.exception("request_failed", audit_id=audit_id, method=method, status=exchange.status, **function)
            await self._answer(exchange, _HIDDEN)
        finally:
            exchange.release()
            if exchange.on_end is not None:
                exchange.on_end(exchange)

    async def _answer(self, exchange: Exchange, error: StatusError) -> None:
        if exchange.started:
            # The status line is out. Returning without an end of the body makes the server cut the connection, which the client can tell
            # from a complete answer.
            return
        code, body, content_type, headers = write_status(error, representation_of_errors(exchange))
        await exchange.respond(code, body, content_type, headers)
