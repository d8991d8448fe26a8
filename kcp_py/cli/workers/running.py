"""`run_workers`: the processes of one server, once it was prepared."""

from __future__ import annotations

import gc
import importlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from kcp_py.cli.workers.child import Process
from kcp_py.cli.workers.forks import LocalForks, Template
from kcp_py.cli.workers.sharing import Sharing
from kcp_py.cli.workers.supervisor import ProcessSupervisor
from kcp_py.options import Options
from kcp_py.serving.balance import Turns
from kcp_py.storage.shared import SharedRevisions
from kcp_py.telemetry.plainlog import PlainLog

if TYPE_CHECKING:
    from kcp_py.cli.workers.part import Part

_PRELOADED: Final = (
    "importlib.resources.readers",
    "kcp_py.bootstrap",
    "kcp_py.cli.workers.part",
    "kcp_py.controlplane",
    "kcp_py.controlplane.batteries",
)
"""Imported before the first fork, so that the processes share their memory."""


def run_workers(options: Options, listener: socket.socket, serve: Callable[[Part], int], *, template: Template | None = None) -> int:
    """Run the processes until a signal, or fork them for the supervisor. Returns the exit code.

    Args:
        options: the settings.
        listener: the listening socket.
        serve: runs the server in a process. Returns its exit code.
        template: the end of a supervisor's template that this process is; None to supervise in this process.
    """
    _preload()
    from kcp_py.cli.workers.part import Part

    sharing = Sharing(options.workers) if template is None else template.sharing

    def start(process: Process, channel: socket.socket, store: socket.socket | None) -> int:
        structlog.contextvars.bind_contextvars(process=process.name)
        part = Part(
            process.name,
            channel,
            store,
            SharedRevisions(sharing.revisions),
            turns=Turns(sharing.connections, process.number),
            counts=sharing.counts.of(process.number),
            instants=sharing.instants.of(process.number),
            grace=options.shutdown_grace_period,
        )
        return serve(part)

    gc.collect()
    # A collection would write to all objects, and so copy them.
    gc.freeze()
    if template is not None:
        return template.serve(start)
    supervisor = ProcessSupervisor(
        LocalForks(start, listener),
        options.workers,
        options.shutdown_grace_period,
        ended=sharing.ended,
        log=PlainLog(options.log_level, options.log_format),
        timeout=options.process_timeout,
    )
    return supervisor.run()


def _preload() -> None:
    """Import and read what each process would take memory of its own for."""
    for name in _PRELOADED:
        importlib.import_module(name)
    from kcp_py.bootstrap.flowcontrol import flow_control
    from kcp_py.bootstrap.kinds import builtin_kinds
    from kcp_py.bootstrap.rbac import policy_objects
    from kcp_py.bootstrap.wire import message_of
    from kcp_py.serving.server import event_loop_factory

    for read in (builtin_kinds, policy_objects, flow_control, message_of, event_loop_factory):
        read()
