"""Which requests are sampled, and their spans as a collector gets them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import ControlPlane, Credentials, Options, UserInfo
from kcp_py.options import OptionsError
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.tracing.tracer import span_name

grpc = pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.sdk")

pytestmark = pytest.mark.anyio

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
UNSAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
MAPS = "/clusters/team-a/api/v1/namespaces/default/configmaps"


class Collector:
    """A collector of OpenTelemetry: a gRPC server that keeps what it gets."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

        self.requests: list[Any] = []
        kept = self.requests

        class Service(service.TraceServiceServicer):
            def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - of the protocol
                kept.append(request)
                return messages.ExportTraceServiceResponse()

        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        service.add_TraceServiceServicer_to_server(Service(), self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    @property
    def spans(self) -> list[Any]:
        return [
            span for request in self.requests for found in request.resource_spans for scope in found.scope_spans for span in scope.spans
        ]

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


class ByHeader:
    async def authenticate(self, credentials: Credentials) -> UserInfo:
        return UserInfo("me", groups=(credentials.headers.get(b"x-group", b"system:masters").decode(),))


class Everything:
    async def authorize(self, *_: object) -> Any:
        from kcp_py import Decision

        return Decision(allowed=True)


async def ask(tmp_path: Path, port: int, *requests: tuple[str, str, dict[str, str]], rate: int = 0) -> list[int]:
    """Send requests to a control plane with traces; they are exported when it ends."""
    file = tmp_path / "tracing.yaml"
    file.write_text(
        f"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: 127.0.0.1:{port}\nsamplingRatePerMillion: {rate}\n",
        "utf-8",
    )
    options = Options(storage="memory", tracing_config_file=file, controllers=())
    async with ControlPlane(options, authenticators=[ByHeader()], authorizers=[Everything()]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://kcp") as client:
            return [(await client.request(method, path, headers=headers)).status_code for method, path, headers in requests]


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


async def test_a_trusted_caller_decides(tmp_path: Path, collector: Collector) -> None:
    """The span continues the trace of the caller; a request that the caller does not sample has none, whatever the rate."""
    asked = [("GET", f"{MAPS}/one?pretty=1", SAMPLED), ("GET", MAPS, UNSAMPLED)]
    assert await ask(tmp_path, collector.port, *asked, rate=1_000_000) == [404, 200]
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.name == "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}"
    found = attributes(span)
    assert found["http.target"] == f"{MAPS}/one?pretty=1"
    assert found["http.response.status_code"] == 404
    assert found["kcp.cluster"] == "team-a"
    assert len(found["audit-id"]) == 36
    (resource,) = {
        item.value.string_value for item in collector.requests[0].resource_spans[0].resource.attributes if item.key == "service.name"
    }
    assert resource == "apiserver"


async def test_other_callers_do_not_decide(tmp_path: Path, collector: Collector) -> None:
    """A tenant cannot have its requests sampled; where chance samples them, its trace is a link of a new one."""
    tenant = {**SAMPLED, "x-group": "team-a"}
    assert await ask(tmp_path, collector.port, ("GET", MAPS, tenant), rate=0) == [200]
    assert collector.spans == []
    assert await ask(tmp_path, collector.port, ("GET", MAPS, tenant), rate=1_000_000) == [200]
    (span,) = collector.spans
    assert span.trace_id.hex() != TRACE
    assert span.parent_span_id == b""
    assert [link.trace_id.hex() for link in span.links] == [TRACE]


@pytest.mark.parametrize("header", ["", "00", "x" * 55, f"00-{'0' * 32}-{PARENT}-01", "00-" + "z" * 52, "ÿ" * 60])
async def test_headers_that_are_no_trace_context(tmp_path: Path, collector: Collector, header: str) -> None:
    """They fail no request."""
    headers = {b"traceparent": header.encode("latin-1")}
    assert await ask(tmp_path, collector.port, ("GET", MAPS, headers), rate=1_000_000) == [200]  # type: ignore[arg-type]
    for span in collector.spans:
        assert span.trace_id.hex() != "0" * 32


async def test_a_collector_that_is_away_stops_nothing(tmp_path: Path) -> None:
    """Requests are answered, and the server ends."""
    made = Collector()
    made.stop()
    assert await ask(tmp_path, made.port, ("GET", MAPS, {}), rate=1_000_000) == [200]


async def test_a_wrong_file_keeps_the_server_from_starting(tmp_path: Path) -> None:
    """As every wrong option does."""
    with pytest.raises(OptionsError, match="--tracing-config-file"):
        async with ControlPlane(Options(storage="memory", tracing_config_file=tmp_path / "none.yaml")):
            pass


def test_names_of_spans_do_not_grow_with_objects() -> None:
    """They have the forms of kube-apiserver."""
    scale = RequestInfo(True, "update", "apis", "apps", "v1", "shop", "deployments", "scale", "web", "/x", ())
    assert span_name("PUT", scale) == "PUT /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale"
    assert span_name("GET", UNPARSED) == "GET"
