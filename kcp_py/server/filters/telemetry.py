"""`TelemetryFilter`: metrics and the access log, with labels from resolved values only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.user import UNKNOWN
from kcp_py.server.exchange import ClientDisconnectedError, Exchange, exchange_of
from kcp_py.server.requestinfo import UNPARSED
from kcp_py.telemetry.logs import AccessLog
from kcp_py.telemetry.metrics import UNRESOLVED, RequestMetrics

_SUBRESOURCES: Final = frozenset(("status", "scale", "finalize", "approval", "token"))
"""What the label may hold; other texts stand only in the path."""
_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class TelemetryFilter:
    """Counts and times requests. Of the request itself it shows a label only once a handler has set `Exchange.resolved`."""

    def __init__(
        self, app: ASGIApp, *, metrics: RequestMetrics, access_log: AccessLog | None = None, now: Callable[[], float] = time.perf_counter
    ) -> None:
        """Wrap `app`.

        Args:
            app: the next filter.
            metrics: of this server.
            access_log: None writes no access lines.
            now: seconds, monotonic.
        """
        self._app = app
        self._metrics = metrics
        self._access_log = access_log
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        in_flight = self._metrics.in_flight
        kind = "readOnly" if exchange.method in _READING else "mutating"
        started = self._now()
        in_flight[kind] += 1
        code = 0
        try:
            await self._app(scope, receive, send)
            code = exchange.status
        except StatusError as error:
            code = exchange.status or error.code
            raise
        except ClientDisconnectedError:
            raise
        except Exception:
            code = exchange.status or 500
            raise
        finally:
            in_flight[kind] -= 1
            self._record(exchange, code, self._now() - started)

    def _record(self, exchange: Exchange, code: int, seconds: float) -> None:
        info = exchange.info
        resolved = exchange.resolved
        verb = info.verb or exchange.method.lower()
        subresource = info.subresource if info.subresource in _SUBRESOURCES else ""
        labels = UNRESOLVED if resolved is None else (*resolved, subresource)
        self._metrics.record(verb, labels, code, None if verb == "watch" else seconds)
        if self._access_log is not None:
            self._access_log.record(_line(exchange, code, seconds))


def _line(exchange: Exchange, code: int, seconds: float) -> dict[str, Any]:
    line: dict[str, Any] = {
        "event": "request",
        "audit_id": exchange.audit_id,
        "method": exchange.method,
        "code": code,
        "milliseconds": round(seconds * 1000, 3),
        "bytes": exchange.sent_bytes,
    }
    info = exchange.info
    if info is not UNPARSED:
        line["cluster"] = str(exchange.cluster)
        line["verb"] = info.verb
        line["path"] = info.path[:512]
    if exchange.user is not UNKNOWN:
        line["user"] = exchange.user.name[:256]
    return line
