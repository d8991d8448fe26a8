"""The process of the controllers: its steps, in order, from checked options to running loops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection

import structlog

from kcp_py._version import __version__
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.errors import StatusError
from kcp_py.cli.controllerspages import ControllersHealth, served_pages
from kcp_py.cli.exits import UsageError
from kcp_py.cli.logforwarding import forward_standard_logging
from kcp_py.cli.remote import command_errors, load_context
from kcp_py.client.remote import RemoteClient
from kcp_py.client.remotetap import RemoteTap
from kcp_py.client.transport import Transport
from kcp_py.controllers import ControllerSettings, LeaderElection, check_selection, start_controllers
from kcp_py.controlplane.batteries import Batteries
from kcp_py.options import Options
from kcp_py.telemetry.logs import configure_logging

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


def run_controllers(options: Options, kubeconfig: str | None, context: str | None) -> int:
    """Run the selected controllers until a signal; return the exit code 0.

    Raises:
        UsageError: a setting names what does not exist.
        CommandError: the kubeconfig cannot be used.
    """
    try:
        check_selection(options.controllers)
    except ValueError as error:
        raise UsageError(f"--controllers: {error}") from None
    try:
        absent = Batteries(options).absent_controllers
    except ValueError as error:
        raise UsageError(str(error)) from None
    loaded = load_context(kubeconfig, context)
    with command_errors():
        transport = Transport(loaded)
    configure_logging(options.log_level, options.log_format)
    forward_standard_logging()
    asyncio.run(_run(options, transport, absent))
    return 0


async def _run(options: Options, transport: Transport, absent: Collection[str]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with RemoteClient(transport) as client, Supervisor(_report) as supervisor:
        tap = RemoteTap(transport)
        # Several of these processes can always be started for one server.
        election = LeaderElection(client) if options.leader_elect != "false" else None
        supervisor.start("tap", tap.run)
        loops = start_controllers(
            supervisor,
            client,
            tap,
            options.controllers,
            settings=ControllerSettings.of(options),
            election=election,
            absent=absent,
        )
        health = ControllersHealth(tap, election, loops)
        async with served_pages(options, health, loops):
            names = sorted(one.name for one in loops)
            _log.info("controllers_started", version=__version__, url=transport.base_url, controllers=names)
            await stopped.wait()
            health.stopping = True
    _log.info("controllers_stopped")


def _report(name: str, error: BaseException, delay: float) -> None:
    # A server that does not answer is not a defect: its text is sufficient.
    reasons = _messages(error)
    _log.error(
        "task_failed",
        task=name,
        error="; ".join(reasons) or str(error) or type(error).__name__,
        restart_seconds=delay,
        exc_info=None if reasons else error,
    )


def _messages(error: BaseException) -> list[str]:
    """The texts of failures of the API, where an error is nothing else."""
    if isinstance(error, StatusError):
        return [error.message]
    if isinstance(error, BaseExceptionGroup):
        found = [_messages(one) for one in error.exceptions]
        return [text for texts in found for text in texts] if all(found) else []
    return []
