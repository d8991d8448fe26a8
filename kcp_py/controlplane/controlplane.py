"""`ControlPlane`: a whole server, from options, as an ASGI application."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.authn.authenticator import Authenticator
from kcp_py.authz.authorizer import Authorizer, Decision
from kcp_py.client import LocalClient, LocalTap
from kcp_py.client.requests import RequestObserver
from kcp_py.controllers import ControllerFactory
from kcp_py.controlplane.admission import AdmissionParts, build_admission, describe_policies
from kcp_py.controlplane.batteries import Batteries
from kcp_py.controlplane.catalog import Api, build_catalog
from kcp_py.controlplane.controllers import LoopParts, start_loops
from kcp_py.controlplane.datastore import GivenStorage, continue_token_key, database_file, start_compaction, storage_of
from kcp_py.controlplane.edge import EdgeParts, access_log_of, build_edge, storage_checks
from kcp_py.controlplane.extensions import Extensions
from kcp_py.controlplane.identity import Identity, build_identity, open_token_files, start_identity
from kcp_py.controlplane.issuers import create_cluster_issuers, open_webhook_tokens, start_operator_issuers
from kcp_py.controlplane.limits import default_limits, open_ledger
from kcp_py.controlplane.monitoring import Feed, Monitored, describe_budget, report, start_monitoring
from kcp_py.controlplane.rootca import read_root_ca
from kcp_py.controlplane.serviceaccounts import ServiceAccounts, build_service_accounts
from kcp_py.controlplane.serviceranges import assign_to_services
from kcp_py.controlplane.tracing import start_tracing
from kcp_py.egress import Caller, Networks, Service, ServiceResolver
from kcp_py.logicalcluster import ROOT, ClusterSelection, Name
from kcp_py.options import Options
from kcp_py.registry.admission import AdmissionPlugin
from kcp_py.registry.catalog.crdrecord import run_crd_record
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.store import Access
from kcp_py.registry.store.decoded import DECODED_BYTES, DecodedObjects
from kcp_py.registry.webhookservices import ClusterServices
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo
from kcp_py.server.chain import ASGIApp, Filter
from kcp_py.server.filters.clusterlimits import Shares
from kcp_py.server.filters.concurrency import Fairness, InFlight
from kcp_py.server.handlers.backend import Backend, RequestLimits
from kcp_py.storage.contract import Storage
from kcp_py.telemetry.gauges import Gauges
from kcp_py.telemetry.logs import configure_embedded_logging
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.tenancy import LogicalClusters
from kcp_py.tenancy.key_migration import migrate_keys
from kcp_py.tenancy.snapshots import Snapshots
from kcp_py.watchcache import Fanout

if TYPE_CHECKING:
    from kcp_py.telemetry.watchdog import Watchdog


class ControlPlane(Extensions):
    """A running control plane.

    ::

        async with ControlPlane(Options(storage="memory")) as control_plane:
            serve(control_plane.app)

    Attributes:
        app: the ASGI application; set while the context is open.
        backend: the parts that the handlers use.
        client: the in-process client.
        tap: the tap on the store, for controllers.
        snapshots: saves, restores and clones logical clusters.
        gauges: further metrics, which may be added at any time.
        registry: all metrics.
    """

    app: ASGIApp
    backend: Backend
    client: LocalClient
    tap: LocalTap
    snapshots: Snapshots

    def __init__(
        self,
        options: Options,
        *,
        storage: GivenStorage = None,
        services: ServiceResolver | None = None,
        authenticators: Sequence[Authenticator] = (),
        authorizers: Sequence[Authorizer] = (),
        admission: Sequence[AdmissionPlugin] = (),
        apis: Sequence[Api] = (),
        filters: Sequence[Filter] = (),
        controllers: Sequence[ControllerFactory] = (),
        batteries: Sequence[str] | None = None,
        fairness: Fairness | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Create a control plane. It opens the store when the context is entered.

        Args:
            options: the settings.
            storage: an unopened store that replaces the store of the options; or a function of that store that returns one, such as a
                class of `WrappedStorage`.
            services: resolves the services of webhooks, before their objects in the cluster do.
            authenticators: identify callers, before client certificates and tokens.
            authorizers: decide about requests, after the public paths and before the group `system:masters`.
            admission: plugins that see every write, after those of the server but policies, webhooks, checks of escalation, and quota.
                Entering the context raises ValueError for a name that is taken, and for switches of the options that name no plugin.
            apis: resources that are stored or served by code in every cluster, and sources that add resources to some clusters. Entering
                the context raises ValueError for a resource that has the name or the kind of another one that every cluster serves, and
                for a stored resource that would be refused as a CRD.
            filters: wrap the handler of every request that is authenticated and authorized, outermost first.
            controllers: make controllers from a `ControllerContext`. They run together with those of the server, and
                `Options.controllers` selects among all by their names. Entering the context raises ValueError for a name that is
                taken or unknown.
            batteries: the built-in resources to serve, in place of `Options.batteries`; `()` for none. Entering the context raises
                ValueError for a name that is unknown, and for what needs a battery that is not selected.
            fairness: decides when a request may run, in place of the bounds of the server; it is not asked about watches and about
                administrators.
            clock: what everything with a TTL counts by. Deadlines of requests and connections stay with the event loop.
        """
        super().__init__(
            apis=apis,
            authenticators=authenticators,
            authorizers=authorizers,
            admission=admission,
            filters=filters,
            controllers=controllers,
        )
        chosen: Any = batteries if isinstance(batteries, str) else tuple(batteries or ())  # a text is refused by the options
        self._options = options if batteries is None else dataclasses.replace(options, batteries=chosen)
        self._given_storage = storage
        self._services = services
        self.clock = clock
        self._fairness = fairness or InFlight()
        # A derived class that is one of several processes has another one.
        self._shares: Shares | None = None
        self._stack = AsyncExitStack()
        self.gauges = Gauges()
        self.registry = MetricsRegistry()
        self._stopping = False
        self._running = False
        self._feed = Feed()
        self._watchdog: Watchdog | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ControlPlane.__annotations__:
                raise AttributeError(
                    f"the control plane has no {name} before it is entered: use `async with control_plane`", name=name, obj=self
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @property
    def options(self) -> Options:
        """The settings."""
        return self._options

    def configure(self, options: Options) -> None:
        """Replace the settings.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        self._check_open()
        self._options = options

    async def __aenter__(self) -> Self:
        if self._running:
            raise RuntimeError("the control plane is entered already")
        configure_embedded_logging()
        self._entered = self._running = True
        self._stopping = False
        self.registry = MetricsRegistry()
        await self._stack.__aenter__()
        try:
            await self._build()
        except BaseException:
            self._running = False
            await self._stack.__aexit__(*sys.exc_info())
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.begin_shutdown()
        try:
            await self._stack.aclose()
        finally:
            self._running = False

    def begin_shutdown(self) -> None:
        """Fail readiness, end all watches and refuse new ones. Requests in flight continue."""
        self._stopping = True
        if hasattr(self, "backend"):
            self.backend.shutting_down = True
            self.backend.fanout.end_watches()

    async def root_cluster_uid(self) -> str:
        """The uid of the logical cluster `root`, which identifies the data of the store."""
        root = await self.backend.clusters.state(ROOT)
        return root.uid if root is not None else ""

    async def _build(self) -> None:
        options, clock = self._options, self.clock
        batteries = Batteries(options)
        if self._has_extensions:
            from kcp_py.telemetry.watchdog import Watchdog  # noqa: PLC0415 - servers without a program have none

            self._watchdog = Watchdog()
        accounts = "service-accounts" in batteries
        root = options.etcd_prefix
        storage = await self._stack.enter_async_context(storage_of(self._given_storage, options))
        await migrate_keys(storage, root)
        supervisor = await self._stack.enter_async_context(Supervisor(report, sleep=clock.sleep))
        fanout = Fanout(
            storage,
            root,
            max_bytes=options.watch_history_bytes,
            watcher_buffer=options.watch_buffer_events,
        )
        budget, decoded = ClusterBudget(options.cluster_cache_bytes), DecodedObjects(DECODED_BYTES // options.workers)
        access = Access(storage, clock=clock.time, budget=budget, decoded=decoded)

        async def service_of_tenant(service: Service) -> tuple[str, int] | None:
            return await cluster_services.find(service)

        webhooks = Caller(Networks(options.webhook_networks), services=self._services, tenant_services=service_of_tenant)
        self._stack.push_async_callback(webhooks.aclose)
        token_files = open_token_files(options)

        async def cluster_uid(cluster: Name) -> str | None:
            state = await clusters.state(cluster)
            return None if state is None else state.uid

        async def decide(user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
            return await identity.authorizer.authorize(user, cluster, info)

        service_accounts = build_service_accounts(access, fanout, options, clock)
        identity = build_identity(
            access,
            fanout,
            options,
            authenticators=self._authenticators,
            authorizers=[*self._own_paths(decide, options), *self._authorizers],
            tokens=token_files.tokens,
            service_accounts=service_accounts,
            issuers=start_operator_issuers(options, self._stack, supervisor, self.gauges, clock=clock),
            cluster_issuers=create_cluster_issuers(access, fanout, options, self._stack, clock=clock),
            webhook_tokens=open_webhook_tokens(options, service_accounts.audiences, self._stack, clock=clock),
            cluster_uid=cluster_uid,
            batteries=batteries,
            clock=clock,
        )
        start_identity(identity, token_files, supervisor, self._stack, registry=self.registry)
        root_ca = "" if options.root_ca_file is None else await asyncio.to_thread(read_root_ca, options.root_ca_file)
        catalog = build_catalog(
            access,
            fanout,
            options,
            apis=self._apis,
            batteries=batteries,
            rests=identity.rests,
            webhooks=webhooks,
            root_ca=root_ca,
            subresources=self._subresources,
        )
        tables = catalog.tables
        cluster_services = ClusterServices(access, tables)
        limits = default_limits(options)
        url = options.external_url(options.secure_port)
        clusters = LogicalClusters(access, fanout, root=root, url=url, builtins=catalog.builtins, limits=limits)

        if accounts:
            service_accounts.connect(tables, clusters)

        def forget(cluster: Name) -> None:
            tables.invalidate(cluster)
            identity.rbac.forget(cluster)
            access.budget.evict(cluster)
            fanout.end_watches(cluster=cluster)

        clusters.on_gone(forget)
        quotas = await open_ledger(access, options, batteries, self._stack)
        parts = AdmissionParts(
            options=options,
            access=access,
            fanout=fanout,
            tables=tables,
            clusters=clusters,
            authorizer=identity.authorizer,
            rbac=identity.rbac,
            sign_secret=service_accounts.sign_secret,
            quotas=quotas,
            webhooks=webhooks,
            clock=clock,
        )
        access.admission = build_admission(parts, self._admission, absent=batteries.absent_plugins)
        describe_policies(access.admission, self.gauges)
        access.ledger = quotas
        await assign_to_services(access, options)
        access.observe(clusters.prefix, clusters)
        started = asyncio.Event()
        supervisor.start("feed", lambda: self._feed.follow(fanout, started))
        await started.wait()
        await clusters.ensure(ROOT)
        if accounts:
            await service_accounts.keyring.start()
            supervisor.start("service account keys", service_accounts.keyring.run)
        self.backend = Backend(
            access=access,
            tables=tables,
            wildcard=catalog.wildcard,
            clusters=clusters,
            fanout=fanout,
            clock=clock.time,
            monotonic=clock.monotonic,
            call_when_past=None if clock is SYSTEM_CLOCK else clock.call_when_past,
            tokens=ContinueTokens(await continue_token_key(storage, root)),
            implicit_clusters=options.logical_clusters == "implicit",
            metrics=RequestMetrics(self.registry),
            limits=RequestLimits(max_body_bytes=options.max_request_body_bytes, min_watch_seconds=int(options.min_request_timeout)),
        )
        # A filter may see the requests of this process, too: tests let them fail.
        filters: Sequence[object] = self._filters
        observer = next((one for one in filters if isinstance(one, RequestObserver)), None)
        self.client = LocalClient(self.backend, observer=observer)
        if accounts:
            supervisor.start("uses of tokens", lambda: service_accounts.record_uses(self.client))
        self.registry.register(service_accounts.uses)
        self.tap = LocalTap(access, tables=tables, crds=catalog.crds, clusters=clusters, fanout=fanout, quotas=quotas)
        self.snapshots = Snapshots(access, clusters, root=root, keys_of=self.tap.stored_keys, ledger=quotas)
        self.loops = start_loops(
            LoopParts(self.client, self.tap, quotas, options, batteries, self._controllers, clock), supervisor, gauges=self.gauges
        )
        describe_budget(access.budget, self.gauges)
        file = database_file(self._given_storage, options)
        monitored = Monitored(storage, fanout, clusters.prefix, file, self.registry, self.gauges, self._watchdog)
        start_monitoring(monitored, supervisor, self._stack)
        start_compaction(options, supervisor, storage, clock)
        supervisor.start("index of CRDs", lambda: run_crd_record(catalog.crds.index, fanout, sleep=clock.sleep))
        self._tracer = await start_tracing(options.tracing_config_file, self._stack)
        self.app = self._edge(storage, identity, service_accounts if accounts else None, quotas)

    def _edge(self, storage: Storage, identity: Identity, service_accounts: ServiceAccounts | None, quotas: QuotaLedger) -> ASGIApp:
        checks = storage_checks(storage)
        checks.add("informer-sync", self._feed.check, endpoints=["readyz"])
        checks.add("shutdown", self._check_running, endpoints=["readyz"])
        access_log = access_log_of(self._options)
        if access_log is not None:
            self._stack.callback(access_log.flush)
        parts = EdgeParts(
            options=self._options,
            backend=self.backend,
            tap=self.tap,
            identity=identity,
            service_accounts=service_accounts,
            quotas=quotas,
            checks=checks,
            registry=self.registry,
            gauges=self.gauges,
            access_log=access_log,
            tracer=self._tracer,
            on_request=None if self._watchdog is None else self._watchdog.wake,
            filters=self._filters,
            fairness=self._fairness,
            shares=self._shares,
            routes=self._routes,
            mounts=self._mounts,
            middleware=self._middleware,
        )
        return build_edge(parts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The control plane as an ASGI application, which enters it at the start of the lifespan and leaves it at the end.

        Within the context, it is `app`. A program that mounts it in another application enters the context itself: applications that
        are mounted have no lifespan.

        Raises:
            RuntimeError: a request comes before the context is entered.
        """
        if scope["type"] == "lifespan" and not self._running:
            from kcp_py.library.lifespan import run_lifespan  # noqa: PLC0415

            await run_lifespan(self, receive, send)
        elif hasattr(self, "app"):
            await self.app(scope, receive, send)
        else:
            raise RuntimeError("the control plane has not been entered: use `async with control_plane`, in the lifespan of an application")

    async def _check_running(self) -> None:
        if self._stopping:
            raise RuntimeError("the server is shutting down")
