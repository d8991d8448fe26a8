"""`supervise`: a server of several processes, by a process that has not imported the server."""

from __future__ import annotations

import time
from collections.abc import Callable

from kcp_py.cli.workers.child import adopt_orphans
from kcp_py.cli.workers.forks import Template, TemplateForks
from kcp_py.cli.workers.sharing import Sharing
from kcp_py.cli.workers.supervisor import ProcessSupervisor
from kcp_py.options import Options
from kcp_py.telemetry.plainlog import PlainLog


def supervise(options: Options, prepare: Callable[[Template, float], int]) -> int | None:
    """Run the processes of a server until a signal. Returns the exit code; None where the system lacks what this needs (Linux).

    Errors of the start are written by the process that has them.

    Args:
        options: the settings.
        prepare: imports the server, and runs the process that is forked for each other one. Is called with when the server began
            (`time.monotonic`). Returns the exit code.
    """
    if not adopt_orphans():
        return None
    began = time.monotonic()
    sharing = Sharing(options.workers)
    log = PlainLog(options.log_level, options.log_format)

    forks = TemplateForks(lambda template: prepare(template, began), sharing)
    supervisor = ProcessSupervisor(
        forks, options.workers, options.shutdown_grace_period, ended=sharing.ended, log=log, timeout=options.process_timeout
    )
    code = supervisor.run()
    if forks.has_listened:
        log.info("server_stopped", uptime_seconds=round(time.monotonic() - began, 1))
    return code
