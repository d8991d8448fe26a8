"""`start_loops`: runs the controllers of the server and those of the program, as the options select them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcp_py.aio.clock import Clock
from kcp_py.aio.supervisor import Supervisor
from kcp_py.client import LocalClient, LocalTap
from kcp_py.controllers import (
    ControllerFactory,
    ControllerSettings,
    LeaderElection,
    describe_queues,
    is_elected,
    start_controllers,
)
from kcp_py.controllers.runtime.loop import ReconcileLoop
from kcp_py.controllers.signingrequests import AuthorityFiles, SigningController
from kcp_py.controlplane.batteries import Batteries
from kcp_py.options import Options
from kcp_py.registry.quota import QuotaLedger
from kcp_py.request.user import controller_user
from kcp_py.telemetry.gauges import Gauges


class LoopParts(NamedTuple):
    """What controllers work with."""

    client: LocalClient
    tap: LocalTap
    quotas: QuotaLedger
    options: Options
    batteries: Batteries
    additional: Sequence[ControllerFactory]
    """Those of the program."""
    clock: Clock


def start_loops(parts: LoopParts, supervisor: Supervisor, *, gauges: Gauges) -> Sequence[ReconcileLoop]:
    """Start the controllers, and offer the metrics of their queues.

    Raises:
        ValueError: a name of a controller is taken or unknown.
    """
    options, clock = parts.options, parts.clock
    loops = start_controllers(
        supervisor,
        parts.client,
        parts.tap,
        options.controllers,
        clock=clock,
        settings=ControllerSettings.of(options),
        additional=parts.additional,
        election=LeaderElection(parts.client, clock=clock) if is_elected(options) else None,
        signer=_signer(parts),
        usage=parts.quotas,
        absent=parts.batteries.absent_controllers,
    )
    describe_queues(gauges, {loop.name: loop.queue.metrics for loop in loops})
    return loops


def _signer(parts: LoopParts) -> SigningController:
    options, client = parts.options, parts.client.acting_as(controller_user("certificate-controller"))
    authority = AuthorityFiles(options.ca_file, options.pki_directory / "ca.key")
    return SigningController(client, authority.load, longest=options.cluster_signing_duration, clock=parts.clock.time)
