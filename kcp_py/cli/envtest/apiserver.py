"""The process in the place of kube-apiserver: from its command line to a served control plane, whose objects are in memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import errno
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kcp_py.cli.structlogimport import import_structlog

# Before all others: they import structlog.
import_structlog()

from kcp_py.cli.envtest.datadirectory import journal_of  # noqa: E402
from kcp_py.cli.envtest.flags import CommandLine, read  # noqa: E402
from kcp_py.cli.envtest.orphans import Orphan  # noqa: E402
from kcp_py.cli.envtest.translation import FlagError, TestServerOptions, options_of  # noqa: E402
from kcp_py.cli.logforwarding import forward_standard_logging  # noqa: E402
from kcp_py.cli.tuning import tune_runtime  # noqa: E402
from kcp_py.serving.certificates import CertificateError, temporary_serving_pair  # noqa: E402
from kcp_py.serving.connectionlimits import raise_descriptor_limit  # noqa: E402
from kcp_py.serving.files import write_private_file  # noqa: E402
from kcp_py.serving.server import ListenError, event_loop_factory, listen, serve  # noqa: E402
from kcp_py.serving.tls import ReloadingContext  # noqa: E402
from kcp_py.storage.contract import StorageError  # noqa: E402
from kcp_py.storage.memory.journal import JournaledStorage  # noqa: E402
from kcp_py.telemetry.logs import configure_logging  # noqa: E402

DEFAULT_CERT_DIR: Final = Path("/var/run/kubernetes")
_LISTEN_SECONDS: Final = 5.0
"""How long the address may be in use: a program that is killed ends before the process that serves in its place."""
_LOOK_SECONDS: Final = 0.01


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    listener: socket.socket | None = None,
    *,
    control: int | None = None,
    started_by: int | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code.

    Args:
        arguments: the command line of kube-apiserver, without the name of the program.
        environment: of the process.
        listener: listens on the address of the command line already; without one it is bound here.
        control: the descriptor of a socket; the server stops when something comes, and is as killed when its other end is closed.
        started_by: the parent when the program began; None for the present one.
    """
    line = read(arguments)
    try:
        options = options_of(line, environment, certificate=_certificate(line))
        _warn(line)
        journal = journal_of(_servers(line), options.etcd_prefix)
        return _serve(options, listener, control=control, journal=journal, started_by=started_by)
    except (FlagError, CertificateError, ListenError, StorageError, OSError, ValueError) as error:
        sys.stderr.write(f"Error: {' '.join(str(error).split())}\n")
        return 1


def _warn(line: CommandLine) -> None:
    for warning in line.warnings:
        sys.stderr.write(f"Warning: {warning}\n")


def _servers(line: CommandLine) -> Sequence[str]:
    return [server for value in line.values.get("etcd-servers", ()) for server in value.split(",")]


def _certificate(line: CommandLine) -> tuple[Path, Path]:
    """The files of the serving certificate: those of --cert-dir, made there where they are missing, as kube-apiserver does."""
    directory = Path(line.last("cert-dir") or DEFAULT_CERT_DIR)
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    if not line.last("tls-cert-file") and not (certificate.exists() and key.exists()):
        directory.mkdir(parents=True, exist_ok=True)
        names = ["localhost", line.last("bind-address", "127.0.0.1"), line.last("advertise-address", "127.0.0.1"), "127.0.0.1"]
        chain, private = temporary_serving_pair(tuple(dict.fromkeys(names)), now=dt.datetime.now(dt.UTC))
        write_private_file(certificate, chain)
        write_private_file(key, private)
    return certificate, key


def _serve(
    options: TestServerOptions, listener: socket.socket | None, *, control: int | None, journal: Path | None, started_by: int | None
) -> int:
    raise_descriptor_limit()
    configure_logging(options.log_level, options.log_format)
    forward_standard_logging()
    with contextlib.closing(listener or _listen(options, 0.0 if control is None else _LISTEN_SECONDS)) as bound:
        bound.setblocking(False)
        options = dataclasses.replace(options, secure_port=bound.getsockname()[1])
        tls = ReloadingContext(options)
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(_run(options, bound, tls, control=control, journal=journal, started_by=started_by))
    return 0


def _listen(options: TestServerOptions, seconds: float) -> socket.socket:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return listen(options)
        except ListenError as error:
            if getattr(error.__context__, "errno", None) != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)


async def _run(
    options: TestServerOptions,
    listener: socket.socket,
    tls: ReloadingContext,
    *,
    control: int | None,
    journal: Path | None,
    started_by: int | None,
) -> None:
    from kcp_py.controlplane import ControlPlane

    async with ControlPlane(options, storage=None if journal is None else JournaledStorage(journal)) as control_plane:
        gc.enable()
        tune_runtime()
        orphan = Orphan(control_plane.app, started_by=started_by)
        if control is not None:
            asyncio.get_running_loop().add_reader(control, _stop, control)
        watching = asyncio.create_task(orphan.end_when_unused())
        try:
            await serve(orphan, listener, options, tls=tls.context, on_shutdown=control_plane.begin_shutdown, on_ready=lambda: None)
        finally:
            watching.cancel()


def _stop(control: int) -> None:
    asyncio.get_running_loop().remove_reader(control)
    with contextlib.suppress(ConnectionError):
        if not os.read(control, 1):
            # The program was killed: so is its server.
            os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)
