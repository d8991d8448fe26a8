"""The ASGI application of a control plane: the filters, the handlers of resources, the pages, and what a program puts around them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcp_py.client import LocalTap
from kcp_py.controlplane.datastore import check_room
from kcp_py.controlplane.identity import Identity
from kcp_py.controlplane.serviceaccounts import ServiceAccounts
from kcp_py.logicalcluster import parse_name
from kcp_py.options import Options
from kcp_py.registry.quota import QuotaLedger
from kcp_py.request.clusterhost import ClusterHosts
from kcp_py.server.bodybudget import BodyBudget
from kcp_py.server.chain import ASGIApp, ChainSettings, Filter, create_asgi_app
from kcp_py.server.filters.clusterlimits import Shares
from kcp_py.server.filters.concurrency import Fairness
from kcp_py.server.handlers.apihandler import APIHandler
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.documents import Documents
from kcp_py.server.handlers.tap import TapHandler
from kcp_py.server.pages.fixed import create_fixed_pages
from kcp_py.server.pages.health import HealthChecks
from kcp_py.server.pages.openid import OpenIDPages
from kcp_py.storage.contract import Storage
from kcp_py.storage.wrapping import room_of
from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.logs import AccessLog
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.tracing.tracer import Tracer

if TYPE_CHECKING:
    from kcp_py.library.middleware import Middleware
    from kcp_py.library.routes import Mount, Route


@dataclass(frozen=True, kw_only=True)
class EdgeParts:
    """What the application is made of."""

    options: Options
    backend: Backend
    tap: LocalTap
    identity: Identity
    service_accounts: ServiceAccounts | None
    quotas: QuotaLedger
    checks: HealthChecks
    registry: MetricsRegistry
    gauges: Gauges
    access_log: AccessLog | None
    tracer: Tracer | None
    on_request: Callable[[], None] | None
    filters: Sequence[Filter]
    fairness: Fairness
    shares: Shares | None
    routes: Sequence[Route]
    mounts: Sequence[Mount]
    middleware: Sequence[Middleware]


def build_edge(parts: EdgeParts) -> ASGIApp:
    """The application, with the metrics of its limits."""
    options, identity, backend = parts.options, parts.identity, parts.backend
    settings = ChainSettings(
        authenticator=identity.authenticator,
        authorizer=identity.authorizer,
        running=identity.running,
        proxy_headers=identity.proxy_headers,
        metrics=backend.metrics,
        access_log=parts.access_log,
        anonymous=identity.anonymous,
        default_cluster=parse_name(options.default_cluster) if options.default_cluster else None,
        single_cluster=options.single_cluster,
        cluster_header=options.cluster_header,
        cluster_hosts=ClusterHosts(options.external_hostname) if options.cluster_hostnames else None,
        token_cluster=None if parts.service_accounts is None else parts.service_accounts.tokens.cluster_of,
        request_timeout=options.request_timeout,
        bodies=BodyBudget(options.max_body_bytes_in_flight, options.max_cluster_body_bytes_in_flight),
        states=backend.clusters,
        shares=parts.shares or Shares(clock=backend.monotonic),
        tracer=parts.tracer,
        further=parts.filters,
        fairness=parts.fairness,
        on_request=parts.on_request,
    )
    quotas = parts.quotas
    parts.gauges.add(
        "kcp_cluster_limit_refusals",
        "Requests that were refused because their logical cluster has reached a limit.",
        lambda: {**settings.shares.refused(), **quotas.refused()},
        kind="counter",
        labels=("limit",),
    )
    address = options.external_url(options.secure_port).partition("://")[2]
    documents = Documents(backend, server_address=address)
    openid = () if parts.service_accounts is None else (OpenIDPages(backend, parts.service_accounts.documents),)
    pages = create_fixed_pages(
        checks=parts.checks, registry=parts.registry, paths=documents.paths, pages=openid, routes=parts.routes, mounts=parts.mounts
    )
    resources = APIHandler(backend, documents, TapHandler(backend, parts.tap))
    application = create_asgi_app(settings, resources=resources, pages=pages)
    if not parts.middleware:
        return application
    from kcp_py.library.middleware import wrap  # noqa: PLC0415 - most programs have none

    return wrap(application, parts.middleware)


def storage_checks(storage: Storage) -> HealthChecks:
    """The checks of a store."""
    checks = HealthChecks()
    checks.add("etcd", storage.check)
    if (room := room_of(storage)) is not None:
        checks.add("storage-space", partial(check_room, room), endpoints=["readyz"], informative=True)
    return checks


def access_log_of(options: Options) -> AccessLog | None:
    """The access log that the options ask for; None where they ask for none."""
    every = options.access_log == "all" or options.log_level == "debug"
    if not every and (options.access_log == "none" or options.log_level == "error"):
        return None
    return AccessLog.to_stream(sys.stderr.buffer, options.log_format, every=every)
