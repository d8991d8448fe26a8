"""`kcp-py envtest-assets`: writes the programs that envtest of controller-runtime starts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kcp_py.cli.envtest import flags
from kcp_py.cli.exits import CommandError
from kcp_py.cli.manual import Documented, Manual

SHEBANG_BYTES: Final = 120
"""Longest path of an interpreter that every system takes in the first line of a program."""
_SOCKET_BYTES: Final = 100
"""Longest path of a socket that every system takes."""
_PROGRAMS: Final = Path(__file__).with_name("programs")
_FLAGS: Final = "-IS"
"""Neither the environment nor `site` has a say: a test environment must start in milliseconds, and in the same way everywhere."""
_WARM_UP_SECONDS: Final = 120


@click.command(
    "envtest-assets",
    cls=Documented,
    manual=Manual(
        (
            "kcp-py envtest-assets bin/k8s",
            "KUBEBUILDER_ASSETS=$PWD/bin/k8s go test ./...",
            "KCP_PY_ENVTEST_CONTROLLERS='*' KUBEBUILDER_ASSETS=$PWD/bin/k8s go test ./...",
        ),
        environment=(
            ("KUBEBUILDER_ASSETS", "Directory of the programs, for envtest."),
            ("KCP_PY_ENVTEST_CONTROLLERS", "When tests run: controllers in place of those of --controllers."),
            ("KCP_PY_ENVTEST_SHARED", "When tests run: 0 starts an environment without the warm process of --shared."),
        ),
        files=(("DIRECTORY", "kube-apiserver, etcd and kubectl."),),
        see_also=("test-server",),
    ),
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--controllers",
    default="",
    metavar="NAME,…",
    help="Controllers that run in every environment besides those of kube-apiserver, as --controllers of kcp-py start; '*' runs all. "
    "The variable KCP_PY_ENVTEST_CONTROLLERS takes precedence when tests run.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Fork the server of each environment from a warm process, which the first one starts and which ends when it is unused.",
)
@click.option(
    "--kubectl", "kubectl", default=None, type=click.Path(dir_okay=False, exists=True, path_type=Path), help="The kubectl to use."
)
def envtest_assets(directory: Path, controllers: str, kubectl: Path | None, *, shared: bool) -> int:
    """Write kube-apiserver, etcd and kubectl into DIRECTORY, for KUBEBUILDER_ASSETS.

    The programs use this installation of kcp-py: write them again after it has moved. Each environment is a server in memory, which ends
    with its test.
    """
    from kcp_py.controllers import check_selection

    try:
        check_selection([name for name in controllers.split(",") if name] or ["*"])
    except ValueError as error:
        raise CommandError(f"--controllers: {error}") from None
    target = directory.absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_programs(target, controllers=controllers, shared=shared)
        found = link_kubectl(target, kubectl)
    except OSError as error:
        raise CommandError(f"{error.filename2 or error.filename or target}: {error.strerror or error}") from None
    _warm_up()
    click.echo(f"export KUBEBUILDER_ASSETS={target}")
    if found is None:
        click.echo("kubectl was not found: install it, or name it with --kubectl, where tests need it", err=True)
    return 0


def write_programs(directory: Path, *, controllers: str = "", shared: bool = False) -> None:
    """Write `kube-apiserver` and `etcd`.

    Args:
        directory: exists.
        controllers: that run in every environment.
        shared: whether a warm process forks the servers.

    Raises:
        OSError: a file cannot be written.
    """
    values = {
        "IMPORT_PATHS: list[str] = []": f"IMPORT_PATHS: list[str] = {_import_paths()!r}",
        'CONTROLLERS = ""': f"CONTROLLERS = {controllers!r}",
        'SHARED = ""': f"SHARED = {_socket_of(directory) if shared else ''!r}",
        'HELP = ""': f"HELP = {flags.help_text()!r}",
        'VERSION = ""': f"VERSION = {flags.version_text()!r}",
    }
    server = (_PROGRAMS / "kube_apiserver.py").read_text()
    for name, value in values.items():
        server = server.replace(name, value, 1)
    write_program(directory / "kube-apiserver", server)
    write_program(directory / "etcd", (_PROGRAMS / "etcd.py").read_text())


def _socket_of(directory: Path) -> str:
    """The path of the socket of the warm process, which is that of these programs alone."""
    path = str(directory / ".warm" / "socket")
    if len(path.encode()) <= _SOCKET_BYTES:
        return path
    # A socket has a short path; the directory is made for this user alone.
    name = hashlib.sha256(path.encode()).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"kcp-py-envtest-{os.getuid()}-{name}" / "socket")


def link_kubectl(directory: Path, named: Path | None = None) -> Path | None:
    """Make `kubectl` a link to a real one: the named one, that of the interpreter's directory, or of PATH.

    Without any it is a program that says so.

    Returns:
        The real one.
    """
    path = directory / "kubectl"
    found = named.absolute() if named is not None else _find_kubectl(directory)
    if found is None:
        write_program(path, (_PROGRAMS / "kubectl.py").read_text())
        return None
    unfinished = directory / f".kubectl-{os.getpid()}"
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(found)
    unfinished.replace(path)
    return found


def _find_kubectl(directory: Path) -> Path | None:
    beside = Path(sys.executable).with_name("kubectl")
    places = [str(beside.parent), *os.get_exec_path()]
    for place in places:
        found = shutil.which("kubectl", path=place)
        # An earlier run may have written a program of this name.
        if found is not None and Path(found).absolute().parent != directory:
            return Path(found).absolute()
    return None


def write_program(path: Path, source: str) -> None:
    """Write a program for the interpreter that runs this one, in one step: another process may be starting it."""
    unfinished = path.with_name(f".{path.name}-{os.getpid()}")
    unfinished.write_text(first_lines(sys.executable) + source)
    unfinished.chmod(0o755)
    unfinished.replace(path)


def first_lines(interpreter: str) -> str:
    """What makes a file a program of an interpreter."""
    if len(interpreter) <= SHEBANG_BYTES and " " not in interpreter:
        return f"#!{interpreter} {_FLAGS}\n"
    # The text is a command for the shell, which ends with it, and a string for Python.
    quoted = interpreter.replace("'", "'\"'\"'")
    return f"#!/bin/sh\n'''exec' '{quoted}' {_FLAGS} \"$0\" \"$@\"\n' '''\n"


def _import_paths() -> Sequence[str]:
    package = str(Path(__file__).resolve().parents[3])
    further = [str(Path(path).absolute()) for path in sys.path if path and Path(path).is_dir() and "site-packages" in path]
    return list(dict.fromkeys([package, *further]))


def _warm_up() -> None:
    """Let Python write its bytecode now, where it can, instead of at the start of the first environment."""
    modules = "kcp_py.cli.envtest.apiserver, kcp_py.controlplane, kcp_py.apis.upstream.resources"
    command = [sys.executable, _FLAGS, "-c", f"import sys; sys.path += {_import_paths()!r}; import {modules}"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=_WARM_UP_SECONDS, check=False)  # noqa: S603 - this interpreter
