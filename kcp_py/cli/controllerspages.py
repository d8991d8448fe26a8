"""Health and metrics of the process of the controllers, as plain HTTP on an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Final

import structlog

from kcp_py.apimachinery.errors import unknown_path
from kcp_py.authn.authenticator import AuthenticatorUnion
from kcp_py.authz import AlwaysAllowPaths, AuthorizerUnion
from kcp_py.cli.exits import CommandError
from kcp_py.client.remotetap import RemoteTap
from kcp_py.controllers import LeaderElection
from kcp_py.controllers.runtime.election import LEASE_SECONDS, NAME
from kcp_py.controllers.runtime.loop import ReconcileLoop
from kcp_py.controllers.runtime.queuemetrics import describe_queues
from kcp_py.options import Options
from kcp_py.options.kinds import split_endpoint
from kcp_py.server.chain import ChainSettings, create_asgi_app
from kcp_py.server.exchange import Exchange
from kcp_py.server.pages.fixed import create_fixed_pages
from kcp_py.server.pages.health import HealthChecks
from kcp_py.serving.server import ListenError, listen, serve
from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry

PATHS: Final = ("/metrics", "/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version")
RENEWAL_TOLERANCE_SECONDS: Final = 20.0
"""How long after the end of the lease a leader is healthy, as in kube-controller-manager."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


class ControllersHealth:
    """The checks of a process of controllers."""

    def __init__(self, tap: RemoteTap, election: LeaderElection | None, loops: Sequence[ReconcileLoop]) -> None:
        """Prepare.

        Args:
            tap: that the controllers follow.
            election: None where the controllers always run.
            loops: of the controllers; may be empty.
        """
        self._tap = tap
        self._election = election
        self._loops = loops
        self.stopping = False

    def checks(self) -> HealthChecks:
        """The checks by page, with the names of kube-controller-manager and of kube-apiserver."""
        checks = HealthChecks()
        if self._election is not None:
            checks.add("leaderElection", self._check_election)
        checks.add("informer-sync", self._check_watching, endpoints=["readyz"])
        checks.add("shutdown", self._check_running, endpoints=["readyz"])
        return checks

    def leads(self) -> float:
        """1 where the controllers run in this process, 0 where they wait."""
        return float(self._election is None or self._election.leads)

    async def _check_election(self) -> None:
        """Fail where this process leads and the lease has ended (client-go: `HealthzAdaptor`)."""
        election = self._election
        if election is not None and election.leads and election.silence > LEASE_SECONDS + RENEWAL_TOLERANCE_SECONDS:
            raise RuntimeError("the lease was not renewed in time")

    async def _check_watching(self) -> None:
        """Fail where a leader does not follow changes, or a candidate does not reach the server."""
        election = self._election
        if not self._loops:
            return
        if election is not None and not election.leads:
            if election.silence > LEASE_SECONDS:
                raise RuntimeError("the server does not answer")
        elif not self._tap.watching:
            raise RuntimeError("changes of the server are not followed")

    async def _check_running(self) -> None:
        if self.stopping:
            raise RuntimeError("the process is stopping")


@contextlib.asynccontextmanager
async def served_pages(options: Options, health: ControllersHealth, loops: Sequence[ReconcileLoop]) -> AsyncIterator[None]:
    """Within it, the pages are served, if the options have an address for them.

    Raises:
        CommandError: the address cannot be listened on.
    """
    if not options.metrics_bind_address:
        yield
        return
    host, port = split_endpoint(options.metrics_bind_address)
    options = dataclasses.replace(options, bind_address=host, secure_port=port, plain_http=True, shutdown_grace_period=1.0)
    try:
        listener = listen(options)
    except ListenError as error:
        raise CommandError(f"cannot listen on {error}") from None
    registry, gauges = MetricsRegistry(), Gauges()
    gauges.add(
        "leader_election_master_status",
        "Whether this process leads (1) or waits (0).",
        lambda: {(NAME,): health.leads()},
        labels=("name",),
    )
    describe_queues(gauges, {loop.name: loop.queue.metrics for loop in loops})
    registry.register(gauges)
    settings = ChainSettings(
        authenticator=AuthenticatorUnion(),
        authorizer=AuthorizerUnion(AlwaysAllowPaths(PATHS)),
        metrics=RequestMetrics(registry),
        default_cluster=None,
    )
    app = create_asgi_app(settings, resources=_no_resources, pages=create_fixed_pages(checks=health.checks(), registry=registry))
    stop = asyncio.Event()
    url = f"http://{options.metrics_bind_address.rpartition(':')[0]}:{listener.getsockname()[1]}"
    serving = asyncio.ensure_future(
        serve(app, listener, options, tls=None, on_shutdown=_nothing, on_ready=lambda: _log.info("pages_served", url=url), stop=stop)
    )
    try:
        yield
    finally:
        stop.set()
        await serving


async def _no_resources(_exchange: Exchange) -> None:
    raise unknown_path()


def _nothing() -> None:
    """Nothing has to end before the pages do."""
