"""`run_workers`: the processes of one server, from what the supervisor has prepared."""

from __future__ import annotations

import gc
import importlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from kcp_py.aio.sharedcounts import SharedCounts
from kcp_py.cli.workers.supervisor import Process, ProcessSupervisor
from kcp_py.options import Options
from kcp_py.serving.balance import ConnectionCounts, Turns
from kcp_py.storage.shared import SharedRevisions

if TYPE_CHECKING:
    from kcp_py.cli.workers.part import Part

_PRELOADED: Final = ("kcp_py.bootstrap", "kcp_py.cli.workers.part", "kcp_py.controlplane", "kcp_py.controlplane.batteries")
"""Imported before the first fork, so that the processes share their memory."""


def run_workers(options: Options, listener: socket.socket, serve: Callable[[Part], int]) -> int:
    """Run the processes until a signal. Returns the exit code.

    Args:
        options: the settings.
        listener: the listening socket.
        serve: runs the server in a process. Returns its exit code.
    """
    for name in _PRELOADED:
        importlib.import_module(name)
    from kcp_py.cli.workers.part import Part

    revisions = SharedRevisions()

    connections = ConnectionCounts(options.workers)
    counts, instants = SharedCounts(options.workers), SharedCounts(options.workers)

    def start(process: Process, channel: socket.socket, store: socket.socket | None) -> int:
        structlog.contextvars.bind_contextvars(process=process.name)
        part = Part(
            process.name,
            channel,
            store,
            revisions,
            turns=Turns(connections, process.number),
            counts=counts.of(process.number),
            instants=instants.of(process.number),
            grace=options.shutdown_grace_period,
        )
        return serve(part)

    def ended(process: Process) -> None:
        connections.leave(process.number)
        counts.clear(process.number)

    gc.collect()
    # A collection would write to all objects, and so copy them.
    gc.freeze()
    return ProcessSupervisor(listener, options.workers, options.shutdown_grace_period, start, ended=ended).run()
