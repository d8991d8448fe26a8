"""The server's process: its steps, in order, from checked options to a served control plane, and the message of each failure."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import fcntl
import os
import platform
import select
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import structlog

from kcp_py._version import __version__
from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.authn.serviceaccount.keyfiles import KeyFileError
from kcp_py.authn.tokenfile import TokenFileError
from kcp_py.authz.configuration.document import ConfigurationError
from kcp_py.cli.credentials import ensure_token_file, write_kubeconfig
from kcp_py.cli.devusers import DevUser, describe_dev_users, ensure_dev_users, first_command
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.logforwarding import forward_standard_logging
from kcp_py.cli.memory import INTERVAL, Trimmer
from kcp_py.cli.tuning import tune_runtime
from kcp_py.kubeconfig import KubeconfigError
from kcp_py.options import Options, OptionsError
from kcp_py.options.batteries import select_batteries
from kcp_py.serving.certificates import CertificateError, ensure_certificates, serving_certificates
from kcp_py.serving.connectionlimits import raise_descriptor_limit
from kcp_py.serving.files import make_private_directory
from kcp_py.serving.renewal import maintain_certificates, warn_of_expiry
from kcp_py.serving.server import ListenError, event_loop_factory, listen, serve
from kcp_py.serving.tls import ReloadingContext
from kcp_py.storage.contract import StorageError
from kcp_py.telemetry.logs import configure_logging

if TYPE_CHECKING:
    from kcp_py.cli.workers.forks import Template
    from kcp_py.cli.workers.part import Part
    from kcp_py.controlplane import ControlPlane

_CONFIGURATION_ERRORS = (
    AuthenticationError,
    ConfigurationError,
    KeyFileError,
    KubeconfigError,
    OptionsError,
    StorageError,
    TokenFileError,
)
"""Faults of the settings, of their files or of the store. The text is for the operator."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.cli")


class Application(Protocol):
    """What makes a control plane: `cli.applications.Application`."""

    def entered(self, options: Options) -> AbstractAsyncContextManager[ControlPlane]:
        """The control plane, entered."""
        ...

    def failure(self, error: Exception) -> CommandError:
        """The error of a start that has failed."""
        ...


def run_server(
    options: Options,
    *,
    out: IO[str],
    application: Application | None = None,
    template: Template | None = None,
    began: float | None = None,
) -> int:
    """Serve a control plane until a signal; return the exit code 0.

    Nothing is written before the port is bound and the root directory is locked, so that a start that cannot succeed changes nothing.

    Args:
        options: the settings.
        out: for the next steps.
        application: makes the control plane; None for that of the settings.
        template: fork the processes that a supervisor asks for, instead.
        began: when the server began (`time.monotonic`); now by default.

    Raises:
        UsageError: a setting names what does not exist.
        CommandError: with one line, where the server cannot start or had to give up.
    """
    from kcp_py.admission.names import check_switches
    from kcp_py.controllers import check_selection
    from kcp_py.controlplane.batteries import Batteries

    if application is not None and options.workers > 1:
        raise UsageError("--workers: more than one process cannot serve the control plane of a program (--app)")
    try:
        Batteries(options)
        # An application has names of its own, which are known when it has started.
        if application is None:
            check_switches(options.enable_admission_plugins, options.disable_admission_plugins)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        if application is None:
            check_selection(options.controllers)
    except ValueError as error:
        raise UsageError(f"--controllers: {error}") from None
    # Every file the process makes, the database included, is for its user alone.
    os.umask(0o077)
    raise_descriptor_limit()
    began = time.monotonic() if began is None else began
    configure_logging(options.log_level, options.log_format)
    forward_standard_logging()
    with contextlib.ExitStack() as stack:
        try:
            if template is not None and template.listener is not None:
                listener = template.listener
            else:
                listener = stack.enter_context(contextlib.closing(listen(options)))
                lock = stack.enter_context(_locked(options.root_directory))
            # The port that was really taken, where a free one was asked for.
            options = dataclasses.replace(options, secure_port=listener.getsockname()[1])
            issued = ensure_certificates(options, now=_now())
            ensure_token_file(options)
            dev_users = ensure_dev_users(options)
            tls = None if options.plain_http else ReloadingContext(options)
            if tls is not None:
                options = dataclasses.replace(options, root_ca_file=options.trust_file)
            if template is not None and template.listener is None:
                template.hold(listener, lock)
        except ListenError as error:
            raise CommandError(f"cannot listen on {error}") from None
        except OSError as error:
            raise CommandError(_named(error, options.root_directory)) from None
        except (CertificateError, ValueError) as error:
            raise CommandError(str(error)) from None

        def run(part: Part | None) -> int:
            served = _run(
                options, listener, began, tls=tls, issued=issued, dev_users=dev_users, out=out, application=application, part=part
            )
            with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
                runner.run(served)
            return 0

        if options.workers > 1:
            from kcp_py.cli.workers.running import run_workers

            code = run_workers(options, listener, run, template=template)
            if template is not None:
                return code
        else:
            code = run(None)
        _log.info("server_stopped", uptime_seconds=round(time.monotonic() - began, 1))
    return code


async def _run(
    options: Options,
    listener: socket.socket,
    began: float,
    *,
    tls: ReloadingContext | None,
    issued: bool,
    dev_users: Sequence[DevUser],
    out: IO[str],
    application: Application | None,
    part: Part | None,
) -> None:
    from kcp_py.bootstrap import descriptions
    from kcp_py.controlplane import ControlPlane

    async with contextlib.AsyncExitStack() as stack:
        try:
            if part is not None:
                entering: AbstractAsyncContextManager[ControlPlane] = part.control_plane(options)
            else:
                entering = ControlPlane(options) if application is None else application.entered(options)
            control_plane = await stack.enter_async_context(entering)
        except OSError as error:
            raise CommandError(_named(error, options.root_directory)) from error
        except _CONFIGURATION_ERRORS as error:
            raise CommandError(_one_line(error)) from error
        except Exception as error:
            if application is None or isinstance(error, CommandError):
                raise
            raise application.failure(error) from error
        tune_runtime()
        is_first = part is None or part.is_owner
        if is_first:
            try:
                write_kubeconfig(options, port=options.secure_port)
            except OSError as error:
                raise CommandError(f"{options.kubeconfig_file}: {error.strerror or error}") from None
        await stack.enter_async_context(_maintained(options, tls, issues=is_first))
        if tls is not None:
            control_plane.gauges.add(
                "kcp_certificate_expiration_timestamp_seconds",
                "Unix time at which the first certificate of a file ends: of the server, and of authorities that clients are verified by.",
                lambda: _certificate_ends(options),
                labels=("file",),
            )
        started = await _description(options, control_plane)

        def announce() -> None:
            # Not before: a start that fails says so in one line, and nothing else.
            if issued:
                _log.info("certificates_issued", directory=str(options.pki_directory))
            warn_of_expiry(options)
            if not descriptions.are_installed():
                _log.info("descriptions_missing", reason=descriptions.MISSING)
            _log.info("server_started", **started, seconds=round(time.monotonic() - began, 3))
            # A program may have selected the batteries itself.
            served = dataclasses.replace(options, batteries=control_plane.options.batteries)
            _print(_next_steps(served, dev_users), out)

        app = control_plane.app if part is None else await stack.enter_async_context(part.joined(control_plane, announce))
        await serve(
            app,
            listener,
            options,
            tls=None if tls is None else tls.context,
            on_shutdown=control_plane.begin_shutdown,
            on_ready=announce if part is None else part.ready,
            stop=None if part is None else part.stop,
            turns=None if part is None else part.turns,
            counts=None if part is None else part.counts,
        )


async def _description(options: Options, control_plane: ControlPlane) -> dict[str, str | int]:
    """The fields of `server_started`, but for the time that the start took."""
    host = f"[{options.bind_address}]" if ":" in options.bind_address else options.bind_address
    return {
        "version": __version__,
        "python": platform.python_version(),
        "address": f"{host}:{options.secure_port}",
        "url": options.external_url(options.secure_port),
        "storage": options.storage,
        "root_directory": str(options.root_directory),
        "pid": os.getpid() if options.workers == 1 else os.getppid(),
        "uid": os.getuid(),
        "root_cluster_uid": await control_plane.root_cluster_uid(),
    }


def _next_steps(options: Options, dev_users: Sequence[DevUser]) -> str:
    """The commands that the server answers with the batteries that it has."""
    batteries = select_batteries(options.batteries)
    read = first_command(options)
    second = f"kubectl --server {options.external_url(options.secure_port)}/clusters/team-a {read}"
    if "logical-clusters" in batteries:
        second = f"{_own_command()} cluster create team-a"
    return (
        f"kcp-py serves {options.external_url(options.secure_port)} ({options.storage} storage). In another terminal:\n"
        f"\n"
        f"  export KUBECONFIG={_shell_word(str(options.kubeconfig_file.absolute()))}\n"
        f"  kubectl {read}\n"
        f"  {second}\n"
        f"\n"
        f"{describe_dev_users(dev_users, options)}"
        f"Ctrl-C stops the server.\n"
    )


def _own_command() -> str:
    """How a shell calls this program: by its name where PATH leads to it, else by its path."""
    import shutil

    beside = Path(sys.executable).with_name("kcp-py")
    found = shutil.which("kcp-py")
    if found is not None and beside.exists() and Path(found).resolve() == beside.resolve():
        return "kcp-py"
    if beside.exists():
        return _shell_word(str(beside.absolute()))
    return f"{_shell_word(sys.executable)} -m kcp_py"


def _shell_word(text: str) -> str:
    import shlex

    return shlex.quote(text)


@contextlib.asynccontextmanager
async def _maintained(options: Options, tls: ReloadingContext | None, *, issues: bool) -> AsyncIterator[None]:
    """Within it, memory is given back, replaced certificate files are taken up and, in one process, own certificates are renewed."""
    tasks = [asyncio.create_task(_release_memory())]
    if tls is not None:
        on_issued = partial(write_kubeconfig, options, port=options.secure_port) if issues else None
        tasks.append(asyncio.create_task(maintain_certificates(options, tls, on_issued=on_issued)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _release_memory() -> None:
    trimmer = Trimmer()
    while True:
        await asyncio.sleep(INTERVAL)
        await asyncio.to_thread(trimmer.look)


def _certificate_ends(options: Options) -> dict[tuple[str, ...], float]:
    ends: dict[tuple[str, ...], float] = {}
    for path, certificate in serving_certificates(options):
        end = certificate.not_valid_after_utc.timestamp()
        ends[path.name,] = min(end, ends.get((path.name,), end))
    return ends


def _print(text: str, out: IO[str]) -> None:
    """Print a text if that is possible: a reader that has gone or a full disk must not end a server, nor a full pipe hold it."""
    if not _has_room(out):
        return
    try:
        out.write(text)
        out.flush()
    except OSError:
        # The rest of the buffer would fail again when Python ends.
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), out.fileno())


def _has_room(out: IO[str]) -> bool:
    """Whether a write of a few lines returns at once; also where the system does not tell."""
    try:
        return bool(select.select((), (out,), (), 0)[1])
    except (OSError, ValueError):
        return True


@contextlib.contextmanager
def _locked(root_directory: Path) -> Iterator[int]:
    """Within it, no other server can use the root directory. The lock ends with the process, however that ends.

    Gives the descriptor that has the lock.
    """
    make_private_directory(root_directory)
    path = root_directory / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"{root_directory}: another kcp-py server is using this root directory") from None
        yield descriptor
    finally:
        os.close(descriptor)


def _named(error: OSError, place: Path) -> str:
    # Of a failed rename the second name is the one that the operator knows.
    return f"{error.filename2 or error.filename or place}: {error.strerror or error}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
