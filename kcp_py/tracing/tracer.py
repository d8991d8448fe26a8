"""`Tracer`: which requests are sampled, and their spans.

A request that is not sampled costs one random number and no span. Source: k8s.io/apiserver `pkg/endpoints/filters/traces.go`: the
names of spans, their attributes, and that the decision of a caller counts only for `system:masters` and `system:monitoring`; other
callers could fill the collector. Their context becomes a link.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.tracing.configuration import MILLION, TracingConfiguration

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

SERVICE: Final = "apiserver"
EXPORT_SECONDS: Final = 2
"""How long an export may take. A stop waits for the last one, also where the collector is away."""
TRUSTED_GROUPS: Final = frozenset(("system:masters", "system:monitoring"))
_TRACEPARENT_BYTES: Final = 55


class Tracer:
    """Makes spans of sampled requests. Thread-safe as far as the library is; used on the event loop."""

    def __init__(
        self, configuration: TracingConfiguration, provider: TracerProvider, chance: Callable[[int], int] = random.randrange
    ) -> None:
        """Trace by a configuration.

        Args:
            configuration: how many requests are sampled.
            provider: of spans, which samples all that it is asked for.
            chance: a random number below its argument.
        """
        self._rate = configuration.sampling_rate_per_million
        self._provider = provider
        self._tracer = provider.get_tracer("kcp_py")
        self._chance = chance

    def samples(self, headers: Mapping[bytes, bytes], context: RequestContext) -> bool:
        """Whether a request is sampled: by the decision of a caller that is trusted, else by chance."""
        parent = headers.get(b"traceparent")
        if parent is not None and len(parent) >= _TRACEPARENT_BYTES and not TRUSTED_GROUPS.isdisjoint(context.user.groups):
            return _is_sampled(parent)
        return self._rate > 0 and self._chance(MILLION) < self._rate

    @contextmanager
    def span(self, headers: Mapping[bytes, bytes], context: RequestContext, *, method: str, target: str) -> Iterator[Span]:
        """The span of a request, current within the block.

        Args:
            headers: of the request, which may have a `traceparent`.
            context: who asks for what.
            method: of HTTP.
            target: the path with the prefix of the cluster, and the query.
        """
        from opentelemetry import trace  # noqa: PLC0415 (an extra)
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        carrier = {name: headers[name.encode()].decode("latin-1") for name in ("traceparent", "tracestate") if name.encode() in headers}
        remote = TraceContextTextMapPropagator().extract(carrier) if carrier else None
        trusted = not TRUSTED_GROUPS.isdisjoint(context.user.groups)
        links = []
        if remote is not None and not trusted:
            sent = trace.get_current_span(remote).get_span_context()
            links = [trace.Link(sent)] if sent.is_valid else []
            remote = None
        attributes: dict[str, Any] = {
            "http.request.method": method,
            "http.target": target,
            "audit-id": context.audit_id,
            "kcp.cluster": str(context.cluster),
        }
        with self._tracer.start_as_current_span(
            span_name(method, context.info),
            remote,
            kind=trace.SpanKind.SERVER,
            attributes=attributes,
            links=links,
            set_status_on_exception=False,
        ) as span:
            yield span

    def close(self) -> None:
        """Export what waits, and end. It may take seconds: call it in a thread."""
        self._provider.shutdown()


def span_name(method: str, info: RequestInfo) -> str:
    """The name of the span of a request, which does not grow with the number of objects."""
    if not info.is_resource:
        return method
    parts = [info.api_prefix, info.group, info.version]
    parts += ["namespaces", "{:namespace}"] if info.namespace else []
    parts += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{method} /{'/'.join(part for part in parts if part)}"


def _is_sampled(traceparent: bytes) -> bool:
    try:
        return bool(int(traceparent[53:55], 16) & 1)
    except ValueError:
        return False


def connect(configuration: TracingConfiguration) -> Tracer:
    """A tracer that exports to the endpoint. It imports large libraries: call it in a thread.

    Raises:
        ImportError: the extra `otel` is not installed.
    """
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415

    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(configuration.endpoint, insecure=True, timeout=EXPORT_SECONDS)))
    return Tracer(configuration, provider)
