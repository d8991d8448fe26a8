"""`supervise`: a server of several processes, by a process that has not imported the server."""

from __future__ import annotations

import marshal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from kcp_py.cli.workers.child import adopt_orphans
from kcp_py.cli.workers.forks import Template, TemplateForks
from kcp_py.cli.workers.freshstart import received, start_afresh
from kcp_py.cli.workers.sharing import Sharing
from kcp_py.cli.workers.supervisor import ProcessSupervisor
from kcp_py.telemetry.plainlog import PlainLog

if TYPE_CHECKING:
    from kcp_py.options import Options
    from kcp_py.telemetry.lines import Level, Style


class _Supervision(NamedTuple):
    """All that a supervisor is told: values that need no imports."""

    workers: int
    grace: float
    timeout: float
    log_level: Level
    log_format: Style
    began: float
    """When the server began (`time.monotonic`)."""
    options: bytes
    """For the template: the pickled settings."""


def supervise(options: Options, *, repeatable: bool) -> int | None:
    """Run the processes of a server until a signal. Returns the exit code; None where the system lacks what this needs (Linux).

    Errors of the start are written by the process that has them.

    Args:
        options: the settings.
        repeatable: whether this process may run its command line again, so that it does not keep what has read the settings.
    """
    if not adopt_orphans():
        return None
    import pickle

    supervision = _Supervision(
        options.workers,
        options.shutdown_grace_period,
        options.process_timeout,
        options.log_level,
        options.log_format,
        time.monotonic(),
        pickle.dumps(options),
    )
    if repeatable:
        start_afresh(marshal.dumps(tuple(supervision)))
    return _run(supervision)


def supervise_afresh() -> int | None:
    """`supervise` in the interpreter that was started afresh. Returns the exit code; None in any other interpreter."""
    message = received()
    if message is None:
        return None
    from kcp_py.cli.outputs import prepare_outputs

    prepare_outputs()
    return _run(_Supervision(*marshal.loads(message)))  # noqa: S302 - written by this process


def _run(supervision: _Supervision) -> int:
    sharing = Sharing(supervision.workers)
    log = PlainLog(supervision.log_level, supervision.log_format)

    def prepare(template: Template) -> int:
        return _run_template(template, supervision.options, supervision.began)

    forks = TemplateForks(prepare, sharing)
    supervisor = ProcessSupervisor(forks, supervision.workers, supervision.grace, ended=sharing.ended, log=log, timeout=supervision.timeout)
    code = supervisor.run()
    if forks.has_listened:
        log.info("server_stopped", uptime_seconds=round(time.monotonic() - supervision.began, 1))
    return code


def _run_template(template: Template, options: bytes, began: float) -> int:
    import pickle

    from kcp_py.cli.structlogimport import import_structlog
    from kcp_py.cli.tuning import tune_start

    tune_start()
    import_structlog()
    from kcp_py.cli.process import run_server

    return run_server(pickle.loads(options), out=sys.stdout, template=template, began=began)  # noqa: S301 - written by the supervisor
