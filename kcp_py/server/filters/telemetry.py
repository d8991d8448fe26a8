"""`TelemetryFilter`: metrics and the access log, with labels from resolved values only."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import UNKNOWN
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.telemetry.logs import AccessLog
from kcp_py.telemetry.metrics import UNRESOLVED, RequestMetrics, RequestSeries

SLOW_SECONDS: Final = 1.0
"""Requests that take as long are logged as problems; watches excepted."""

_SUBRESOURCES: Final = frozenset(("status", "scale", "finalize", "approval", "token"))
"""What the label may hold; other texts stand only in the path."""
_PAGES: Final = {path: ("", "", "", path) for path in ("/healthz", "/livez", "/readyz")}
"""Paths outside of resources that upstream counts by name."""
_CONNECTS: Final = frozenset(("log", "exec", "portforward", "attach", "proxy"))
_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_COLLECTION_VERBS: Final = frozenset(("list", "watch", "deletecollection"))
_PLAIN_VERBS: Final = frozenset(("get", "list", "create", "update", "patch", "delete"))
"""Verbs whose series depends on nothing else, without a subresource and a dry run; that of a patch on whether it is an apply."""
_KEPT_SERIES: Final = 4096
_APPLY: Final = b"application/apply-patch+yaml"
_VERBS: Final = {
    "get": "GET",
    "head": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "post": "POST",
    "update": "PUT",
    "put": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "proxy": "CONNECT",
}


class TelemetryFilter:
    """Counts and times requests. Of the request itself it shows a label only once a handler has set `Exchange.resolved`."""

    def __init__(
        self,
        handler: Handler,
        *,
        metrics: RequestMetrics,
        access_log: AccessLog | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            metrics: of this server.
            access_log: None writes no access lines.
            now: seconds, monotonic.
        """
        self._handler = handler
        self._metrics = metrics
        self._access_log = access_log
        self._now = now
        # The series of ordinary requests, by verb, resource and whether there is a namespace. Tenants may have any number of resources.
        self._series: dict[tuple[str, GroupVersionResource, bool], RequestSeries] = {}

    async def __call__(self, exchange: Exchange) -> None:
        in_flight = self._metrics.in_flight
        kind = "readOnly" if exchange.method in _READING else "mutating"
        started = self._now()
        in_flight[kind] += 1
        try:
            await self._handler(exchange)
        except Exception:
            # The answer to it is still to be written, further out.
            exchange.on_end = partial(self._record, started)
            raise
        else:
            self._record(started, exchange)
        finally:
            in_flight[kind] -= 1

    def _record(self, started: float, exchange: Exchange) -> None:
        info = exchange.info
        resolved = exchange.resolved
        verb = info.verb
        if resolved is not None and verb in _PLAIN_VERBS and not info.subresource and b"dryRun" not in exchange.scope["query_string"]:
            if verb == "patch" and exchange.headers.get(b"content-type") == _APPLY:
                verb = "apply"
            key = (verb, resolved, info.namespace != "")
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= _KEPT_SERIES:
                    self._series.clear()
                series = self._series[key] = self._series_of(exchange)
        else:
            series = self._series_of(exchange)
        log = self._access_log
        if exchange.continuation is not None:
            # What the request was is forgotten while it runs.
            line = _line(exchange) if log is not None and log.every else None
            exchange.on_end = _LongRequest(self, series, started, line)
            return
        code = exchange.status
        seconds = self._now() - started
        series.record(code, seconds, exchange.sent_bytes)
        if log is not None and (log.every or ((code >= 500 or seconds >= SLOW_SECONDS) and log.admit())):
            log.record(_finished(_line(exchange), exchange, code, seconds))

    def _series_of(self, exchange: Exchange) -> RequestSeries:
        """The series in which a request is counted."""
        info = exchange.info
        resolved = exchange.resolved
        if resolved is not None:
            subresource = info.subresource if info.subresource in _SUBRESOURCES else ""
            labels = (*resolved, subresource)
        else:
            labels = _PAGES.get(info.path, UNRESOLVED)
        dry_run = _dry_run(exchange) if b"dryRun" in exchange.scope["query_string"] else ""
        verb = _VERBS.get(info.verb, "")
        if not verb or verb == "PATCH" or info.subresource:
            verb = _verb(exchange, info)
        scope = "" if not info.is_resource else "resource" if info.verb not in _COLLECTION_VERBS else _collection_scope(info)
        return self._metrics.series(verb, labels, scope=scope, dry_run=dry_run)

    def ended(self, exchange: Exchange, request: _LongRequest) -> None:
        """Count a long-running request that has ended."""
        seconds = self._now() - request.started
        assert request.series.running is not None
        request.series.running -= 1
        request.series.record(exchange.status, seconds, exchange.sent_bytes)
        if request.line is not None and self._access_log is not None:
            self._access_log.record(_finished(request.line, exchange, exchange.status, seconds))


class _LongRequest:
    """The data of a watch that is needed when it ends; there may be very many watches."""

    __slots__ = ("_filter", "line", "series", "started")

    def __init__(self, owner: TelemetryFilter, series: RequestSeries, started: float, line: dict[str, Any] | None) -> None:
        self._filter = owner
        self.series = series
        self.started = started
        self.line = line
        series.running = (series.running or 0) + 1

    def __call__(self, exchange: Exchange) -> None:
        self._filter.ended(exchange, self)


def _verb(exchange: Exchange, info: RequestInfo) -> str:
    """Upstream's label (`cleanVerb`, `CanonicalVerb`); empty for unknown methods."""
    verb = _VERBS.get(info.verb, "")
    if verb == "PATCH" and exchange.headers.get(b"content-type") == _APPLY:
        return "APPLY"
    if info.subresource in _CONNECTS:
        return "CONNECT"
    if not verb and info is UNPARSED:
        verb = _VERBS.get(exchange.method.lower(), "")
    return verb


def _collection_scope(info: RequestInfo) -> str:
    return "namespace" if info.namespace else "cluster"


def _dry_run(exchange: Exchange) -> str:
    try:
        values = exchange.query.get("dryRun", ())
    except StatusError:
        return "invalid"
    return "" if not values else "All" if all(value == "All" for value in values) else "invalid"


def _line(exchange: Exchange) -> dict[str, Any]:
    """The fields of a request, in order. The query is left out: it may hold a token."""
    line: dict[str, Any] = {
        "timestamp": "",
        "level": "",
        "event": "request",
        "audit_id": exchange.audit_id,
        "method": exchange.method[:32],
    }
    info = exchange.info
    if info is UNPARSED:
        line["path"] = str(exchange.scope.get("path", ""))[:512]
    else:
        line["path"] = info.path[:512]
        line["cluster"] = str(exchange.cluster)
        line["verb"] = info.verb
    line |= {"status": 0, "duration_seconds": 0.0, "bytes": 0}
    if exchange.user is not UNKNOWN:
        line["user"] = (exchange.impersonator or exchange.user).name[:256]
    if exchange.impersonator is not None:
        line["impersonated_user"] = exchange.user.name[:256]
    if (peer := exchange.scope.get("client")) is not None:
        host, port = peer
        line["peer"] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if (agent := exchange.headers.get(b"user-agent")) is not None:
        line["user_agent"] = agent[:256].decode("latin-1")
    return line


def _finished(line: dict[str, Any], exchange: Exchange, code: int, seconds: float) -> dict[str, Any]:
    line["timestamp"] = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    line["level"] = "warning" if code >= 500 else "info"
    line["status"] = code
    line["duration_seconds"] = round(seconds, 6)
    line["bytes"] = exchange.sent_bytes
    return line
