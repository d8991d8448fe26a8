"""`run_controllers`: reconcile functions in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.contract import Client
from kcp_py.client.keys import Key
from kcp_py.controllers.runtime.election import LeaderElection
from kcp_py.controllers.runtime.loop import ReconcileLoop
from kcp_py.library.reconciling.controllers import Controllers
from kcp_py.library.reconciling.function import FunctionController
from kcp_py.logicalcluster import WILDCARD, ClusterSelection

GRACE_SECONDS = 10.0
"""How long calls that were begun may go on after the stop."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


async def run_controllers(
    client: Client,
    controllers: Controllers,
    *,
    cluster: ClusterSelection = WILDCARD,
    lease: Key | None = None,
    stop: asyncio.Event | None = None,
    grace: float = GRACE_SECONDS,
) -> None:
    """Run reconcile functions until they are told to stop, or cancelled.

    A stop is orderly: nothing is begun any more, calls that run may end, and the lease is given back.

    Args:
        client: of all clusters, or of one that it may read.
        controllers: the functions.
        cluster: whose objects; `WILDCARD` for all.
        lease: the Lease over which processes elect a leader: its logical cluster, namespace and name. None to run without an election.
        stop: ends the run; None to run until cancelled.
        grace: seconds for calls that were begun before the stop.

    Raises:
        ValueError: there are no functions.
    """
    if not len(controllers):
        raise ValueError("there are no reconcile functions")
    ended = stop if stop is not None else asyncio.Event()
    running: list[FunctionController] = []
    async with Supervisor(report) as supervisor:

        async def lead() -> None:
            # Made anew for each term: nothing of the last one is left.
            running[:] = controllers.make(client, cluster)
            async with supervisor.nested() as term:
                for one in running:
                    loop = ReconcileLoop(None, one, one.follow, workers=one.workers)
                    term.start(f"controller {one.name}", loop.run)
                _log.info("reconciling_started", controllers=sorted(one.name for one in running))
                await asyncio.get_running_loop().create_future()

        supervisor.start("reconcile functions", _elected(client, lease, lead))
        await ended.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(one.stop() for one in running))
    _log.info("reconciling_stopped")


def _elected(client: Client, lease: Key | None, lead: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    if lease is None:
        return lead
    election = LeaderElection(client, lease=lease)
    return lambda: election.run(lead)


def report(name: str, error: BaseException, delay: float) -> None:
    """Log the failure of a task that will be started again."""
    trace = None if isinstance(error, StatusError) else error
    _log.error("task_failed", task=name, error=str(error) or type(error).__name__, restart_seconds=delay, exc_info=trace)
