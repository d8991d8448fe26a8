"""`TracingFilter`: a span of OpenTelemetry for each sampled request."""

from __future__ import annotations

from kcp_py.apimachinery.errors import StatusError
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.tracing.tracer import Tracer


class TracingFilter:
    """Spans begin after authentication, which decides whose wish to be sampled counts. That of a watch ends when the watch has begun."""

    def __init__(self, handler: Handler, *, tracer: Tracer) -> None:
        """Wrap `handler`."""
        self._handler = handler
        self._tracer = tracer

    async def __call__(self, exchange: Exchange) -> None:
        context, headers = exchange.context, exchange.credentials.headers
        if not self._tracer.samples(headers, context):
            await self._handler(exchange)
            return
        query = exchange.scope["query_string"].decode("latin-1")
        target = f"{exchange.scope['path']}?{query}" if query else exchange.scope["path"]
        with self._tracer.span(headers, context, method=exchange.method, target=target) as span:
            status = 500
            try:
                await self._handler(exchange)
                status = exchange.status
            except StatusError as error:
                status = error.code
                raise
            finally:
                span.set_attribute("http.response.status_code", status)
