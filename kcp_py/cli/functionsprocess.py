"""`kcp-py controllers --app`: the process of a program's reconcile functions."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.logforwarding import forward_standard_logging
from kcp_py.cli.programs import load_program
from kcp_py.cli.remote import command_errors, load_context
from kcp_py.client.keys import Key
from kcp_py.client.remote import RemoteClient
from kcp_py.client.transport import Transport
from kcp_py.controlplane.extensions import Extensions
from kcp_py.library.reconciling import Controllers, run_controllers
from kcp_py.logicalcluster import WILDCARD, ClusterSelection, parse_name
from kcp_py.options import Options
from kcp_py.telemetry.logs import configure_logging


def run_functions(
    options: Options, kubeconfig: str | None, context: str | None, *, app: str, cluster: str | None, lease: str | None
) -> int:
    """Run the functions of a program until a signal; return the exit code 0.

    Raises:
        UsageError: an argument has not its form.
        CommandError: the kubeconfig or the program cannot be used.
    """
    place = parse_lease(lease) if lease is not None else None
    controllers = controllers_of(load_program(app), app)
    loaded = load_context(kubeconfig, context)
    try:
        selection: ClusterSelection = WILDCARD if cluster is None else parse_name(cluster)
    except ValueError as error:
        raise UsageError(f"--cluster: {error}") from None
    with command_errors():
        transport = Transport(loaded)
    configure_logging(options.log_level, options.log_format)
    forward_standard_logging()
    asyncio.run(_run(transport, controllers, selection, lease=place))
    return 0


def controllers_of(found: Any, app: str) -> Controllers:
    """The functions of what an argument names: `Controllers`, a control plane, or a module with one of them.

    Raises:
        CommandError: there are none.
    """
    candidates = [found, getattr(found, "controllers", None), *vars(found).values()] if hasattr(found, "__dict__") else [found]
    for one in candidates:
        controllers = one.reconcilers if isinstance(one, Extensions) else one
        if isinstance(controllers, Controllers) and len(controllers):
            return controllers
    raise CommandError(f"{app} has no reconcile functions: name Controllers, or a ControlPlane that has some")


def parse_lease(text: str) -> Key:
    """A Lease as `CLUSTER/NAMESPACE/NAME`.

    Raises:
        UsageError: the text has not this form.
    """
    parts = text.split("/")
    if len(parts) == 3 and all(parts):
        with suppress(ValueError):
            return Key(parse_name(parts[0]), parts[1], parts[2])
    raise UsageError(f"--lease: {text}: expected CLUSTER/NAMESPACE/NAME")


async def _run(transport: Transport, controllers: Controllers, cluster: ClusterSelection, *, lease: Key | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with RemoteClient(transport) as client:
        await run_controllers(client, controllers, cluster=cluster, lease=lease, stop=stop)
