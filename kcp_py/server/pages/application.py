"""`create_application`: the FastAPI application of fixed pages and of whatever a library user adds to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector as LibraryCollector
from starlette.exceptions import HTTPException

from kcp_py._version import __version__
from kcp_py.apimachinery.errors import StatusError, bad_request, unknown_path
from kcp_py.server.exchange import Exchange
from kcp_py.server.pages.health import ENDPOINTS, HealthChecks
from kcp_py.server.pages.paths import Paths
from kcp_py.server.pages.version import version_document
from kcp_py.server.status import representation_of_errors, write_status
from kcp_py.telemetry.registry import Collector, MetricsRegistry, Processes, Registry

_FIXED_PATHS: Final = ("/healthz", "/livez", "/metrics", "/readyz", "/version")


def create_application(*, checks: HealthChecks, registry: Registry, paths: Paths, docs: bool, **settings: Any) -> FastAPI:
    """Make the application.

    Args:
        checks: whose pages the index names.
        registry: what `/metrics` shows.
        paths: more entries for the index at `/`.
        docs: whether FastAPI's own documentation of added routes is served, below `/docs`.
        settings: of `FastAPI`, such as `lifespan`.

    Returns:
        An application to which routes can be added. All of them stand behind authentication and authorization, for which
        paths that it does not know need a permission in `root`. `request.state.exchange` has the request's context.
    """
    application = FastAPI(
        title="kcp-py",
        version=__version__,
        docs_url="/docs" if docs else None,
        redoc_url=None,
        # Not /openapi.json: what clients of the API look for below /openapi is the resource tree's.
        openapi_url="/docs/openapi.json" if docs else None,
        redirect_slashes=False,
        **settings,
    )
    _add_error_handlers(application)

    @application.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        exchange: Exchange = request.state.exchange
        found = {*_FIXED_PATHS, *await paths(exchange)}
        for endpoint in ENDPOINTS:
            found.update(f"/{endpoint}/{name}" for name in checks.names(endpoint))
        return _json({"paths": sorted(found)})

    # With the slash too, as upstream: kr8s asks so.
    @application.get("/version", include_in_schema=False)
    @application.get("/version/", include_in_schema=False)
    async def version() -> Response:
        return _json(version_document())

    everything = _Everything(registry, ProcessCollector(registry=None))

    @application.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        processes = registry.processes if isinstance(registry, MetricsRegistry) else None
        if processes is None:
            return Response(await asyncio.to_thread(generate_latest, everything), media_type=CONTENT_TYPE_LATEST)
        whole = _Merged(processes, await processes.others())
        return Response(await asyncio.to_thread(generate_latest, whole), media_type=CONTENT_TYPE_LATEST)

    return application


def check_route(path: str, function: Callable[..., Any], methods: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Check that a function can be added to the application.

    Raises:
        ValueError: FastAPI does not take it.
    """
    try:
        APIRouter().add_api_route(path, function, methods=[*methods], **settings)
    except Exception as error:
        raise ValueError(f'"{path}": {error}') from error


class _Everything(LibraryCollector):
    """What `/metrics` shows: the metrics of the server, then those of its process."""

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            yield from collector.collect()


class _Merged(LibraryCollector):
    """What `/metrics` shows of several processes."""

    def __init__(self, processes: Processes, reports: Sequence[bytes]) -> None:
        self._processes = processes
        self._reports = reports

    def collect(self) -> Iterator[Metric]:
        return self._processes.merged(self._reports)


def _json(document: Any) -> Response:
    """Always indented, as upstream writes these pages."""
    return Response(orjson.dumps(document, option=orjson.OPT_INDENT_2), media_type="application/json")


def _status(request: Request, error: StatusError) -> Response:
    code, body, content_type, headers = write_status(error, representation_of_errors(request.state.exchange))
    response = Response(body, code, media_type=content_type.decode())
    response.raw_headers.extend(headers)
    return response


def _add_error_handlers(application: FastAPI) -> None:
    """Make the framework's errors a Status like all others. Other exceptions go on to the errors filter."""

    @application.exception_handler(HTTPException)
    async def on_http_exception(request: Request, error: HTTPException) -> Response:
        match error.status_code:
            case 404:
                return _status(request, unknown_path())
            case 405:
                message = "the server does not allow this method on the requested resource"
                return _status(request, StatusError(405, "MethodNotAllowed", message))
            case code:
                return _status(request, StatusError(code, "", str(error.detail)))

    @application.exception_handler(RequestValidationError)
    async def on_invalid_request(request: Request, error: RequestValidationError) -> Response:
        problems = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
        return _status(request, bad_request(problems))

    @application.exception_handler(StatusError)
    async def on_status_error(request: Request, error: StatusError) -> Response:
        return _status(request, error)

    @application.exception_handler(Exception)
    async def on_unexpected(request: Request, _error: Exception) -> Response:
        # The framework raises it again behind this answer, so that the errors filter logs it.
        return _status(request, StatusError(500, "InternalError", "Internal error occurred: the server could not complete the request"))
