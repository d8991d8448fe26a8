"""Starting the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.aio.cooperative import Throttle
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.apis.core.tokensecrets import CONTROLLER
from kcp_py.client import Client, LocalTap, Tap
from kcp_py.controllers.clusterlimits import ClusterLimitsController, UsageLedger
from kcp_py.controllers.clusterroles import ClusterRoleController
from kcp_py.controllers.crds import CRDController
from kcp_py.controllers.disruption import DisruptionController
from kcp_py.controllers.events import EventTTLController
from kcp_py.controllers.finishedjobs import FinishedJobController
from kcp_py.controllers.garbage import GarbageCollector
from kcp_py.controllers.kubeletrequests import KubeletRequestController
from kcp_py.controllers.legacytokens import LegacyTokenCleaner
from kcp_py.controllers.logicalclusters import LogicalClusterController
from kcp_py.controllers.migrations import StorageVersionMigrator
from kcp_py.controllers.names import ALIASES, LOGICAL_CLUSTER_LIMITS, WORKLOAD_SIMULATION, check_selection, is_enabled
from kcp_py.controllers.namespaces import NamespaceController
from kcp_py.controllers.pods import PodGarbageCollector
from kcp_py.controllers.policystatus import PolicyStatusController
from kcp_py.controllers.protection import ClaimProtectionController, ClassProtectionController, VolumeProtectionController
from kcp_py.controllers.resourcequotas import ResourceQuotaController
from kcp_py.controllers.runtime.controller import Controller, ControllerContext, ControllerFactory
from kcp_py.controllers.runtime.election import LeaderElection
from kcp_py.controllers.runtime.loop import WORKERS, ReconcileLoop, changes_of
from kcp_py.controllers.runtime.queue import WorkQueue
from kcp_py.controllers.runtime.resuming import Resumed, Resumption
from kcp_py.controllers.settings import ControllerSettings
from kcp_py.controllers.signingrequests import SigningController, SigningRequestCleaner
from kcp_py.controllers.tokensecrets import TokenSecretController
from kcp_py.options import Options
from kcp_py.options.kinds import WORKLOADS
from kcp_py.request.user import controller_user


def is_elected(options: Options) -> bool:
    """Whether the controllers of a server run only while it holds their Lease.

    A server with an embedded store is alone: its controllers run from the start, and no renewal is written every two seconds.
    """
    return options.leader_elect == "true" or (options.leader_elect == "auto" and options.storage == "etcd")


def start_controllers(
    supervisor: Supervisor,
    client: Client,
    tap: Tap,
    selection: Collection[str] = ("*",),
    *,
    clock: Clock = SYSTEM_CLOCK,
    settings: ControllerSettings | None = None,
    additional: Sequence[ControllerFactory] = (),
    election: LeaderElection | None = None,
    signer: SigningController | None = None,
    usage: UsageLedger | None = None,
    absent: Collection[str] = (),
) -> list[ReconcileLoop]:
    """Run the selected controllers for as long as the supervisor lives.

    Args:
        supervisor: runs the tasks, and starts them again when they fail.
        client: of all clusters.
        tap: on the same store.
        selection: see `is_enabled`.
        clock: of delays and deadlines.
        settings: of the controllers; None for the defaults.
        additional: make controllers in addition to those of the server.
        election: the controllers run only while it is won; None to run them always.
        signer: signs certificates. It runs in each process that has the key, elected or not; None where this one has none.
        usage: knows the usage of clusters with limits. Servers have it, elected or not; None elsewhere.
        absent: controllers of the server whose resources are not served. A controller of a program may have the name of one.

    Raises:
        ValueError: the selection names a controller that does not exist, or two controllers have one name.
    """
    settings = settings or ControllerSettings()
    context = ControllerContext(client, tap, clock)
    own = [make(context) for make in additional]

    def runs(name: str) -> bool:
        return name not in absent and is_enabled(name, selection)

    check_selection(selection, [controller.name for controller in own])

    served = [one for one in _controllers(client, tap, settings, clock=clock) if one.name not in absent]
    controllers = [*served, *own]
    names = [*ALIASES, GarbageCollector.name, *(controller.name for controller in controllers)]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two controllers are named {min(repeated)}")

    def loop_of(controller: Controller) -> ReconcileLoop:
        queue = WorkQueue(per_cluster=controller.per_cluster, schedule=clock.call_later, clock=clock.monotonic)
        workers = getattr(controller, "workers", WORKERS)
        return ReconcileLoop(tap, controller, changes_of(tap, controller, clock.sleep), queue=queue, workers=workers)

    selected = [controller for controller in controllers if is_enabled(controller.name, selection)]
    loops = [loop_of(controller) for controller in selected]
    resumed = [Resumed(controller, loop.queue) for controller, loop in zip(selected, loops, strict=True)]
    if is_enabled(GarbageCollector.name, selection):
        queue = WorkQueue(per_cluster=GarbageCollector.per_cluster, schedule=clock.call_later, clock=clock.monotonic)
        throttle = Throttle()
        user = controller_user("generic-garbage-collector")
        progress = tap.progress if isinstance(tap, LocalTap) else None
        now = _now(clock.time)
        collector = GarbageCollector(client.acting_as(user), tap.acting_as(user), queue, now=now, throttle=throttle, progress=progress)
        loops.append(ReconcileLoop(tap, collector, collector.follow, queue=queue, throttle=throttle))
    local = [loop_of(signer)] if signer is not None and runs(signer.name) else []
    if signer is not None and local and election is None:
        resumed.append(Resumed(signer, local[0].queue))
    resumption = Resumption(tap.work, resumed) if isinstance(tap, LocalTap) else None
    if usage is not None and runs(LOGICAL_CLUSTER_LIMITS):
        queue = WorkQueue(per_cluster=ClusterLimitsController.per_cluster, schedule=clock.call_later, clock=clock.monotonic)
        shower = ClusterLimitsController(client, usage, queue, clock=clock.monotonic)
        local.append(ReconcileLoop(tap, shower, changes_of(tap, shower, clock.sleep), queue=queue))
    _start(supervisor, local)
    if not loops:
        return local
    if election is None:
        _start(supervisor, loops, resumption)
    else:
        supervisor.start("leader election", lambda: election.run(lambda: _run(supervisor.nested(), loops, resumption)))
    return [*loops, *local]


def _now(clock: Callable[[], float]) -> Callable[[], str]:
    return lambda: format_time(clock())


def _controllers(client: Client, tap: Tap, settings: ControllerSettings, *, clock: Clock) -> Iterator[Controller]:
    """Those of the server that run in one process at a time, but for the garbage collector."""

    def acting_as(name: str) -> Client:
        return client.acting_as(controller_user(name))

    time, now = clock.time, _now(clock.time)
    namespaces = controller_user("namespace-controller")
    yield ClusterRoleController(acting_as("clusterrole-aggregation-controller"))
    yield CRDController(client, tap, now=now)
    yield DisruptionController(acting_as("disruption-controller"), clock=time)
    if settings.event_ttl > 0:
        yield EventTTLController(client, ttl=settings.event_ttl, clock=time)
    yield FinishedJobController(acting_as("ttl-after-finished-controller"), clock=time)
    yield KubeletRequestController(acting_as("certificate-controller"))
    yield LegacyTokenCleaner(acting_as("legacy-service-account-token-cleaner"), period=settings.token_period, clock=time)
    yield LogicalClusterController(client, tap, now=now, monotonic=clock.monotonic)
    yield NamespaceController(
        client.acting_as(namespaces), tap.acting_as(namespaces), clock=time, monotonic=clock.monotonic, grace=settings.namespace_grace
    )
    yield PodGarbageCollector(acting_as("pod-garbage-collector"), threshold=settings.terminated_pods, clock=time)
    if settings.quota_period > 0:
        yield ResourceQuotaController(tap, period=settings.quota_period)
    yield ClaimProtectionController(acting_as("pvc-protection-controller"))
    yield ClassProtectionController(acting_as("volumeattributesclass-protection-controller"))
    yield VolumeProtectionController(acting_as("pv-protection-controller"))
    yield SigningRequestCleaner(acting_as("certificate-controller"), clock=time)
    yield StorageVersionMigrator(client, clock=time)
    yield TokenSecretController(acting_as(CONTROLLER))
    yield PolicyStatusController(acting_as("validatingadmissionpolicy-status-controller"))
    if WORKLOADS in settings.simulate:
        from kcp_py.controllers.simulation import WorkloadSimulator  # noqa: PLC0415 (other servers start without it)

        yield WorkloadSimulator(acting_as(WORKLOAD_SIMULATION), delay=settings.simulate_delay, now=now)


def _start(supervisor: Supervisor, loops: Iterable[ReconcileLoop], resumption: Resumption | None = None) -> None:
    # First: reads of existing objects continue where the last process was.
    if resumption is not None:
        supervisor.start("unfinished work", resumption.run)
    for loop in loops:
        supervisor.start(f"controller {loop.name}", loop.run)


async def _run(supervisor: Supervisor, loops: Iterable[ReconcileLoop], resumption: Resumption | None) -> None:
    """Run loops until cancelled."""
    async with supervisor:
        _start(supervisor, loops, resumption)
        await asyncio.get_running_loop().create_future()
