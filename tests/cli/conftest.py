"""What the tests of the command line share."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import pty
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kcp_py.cli.certificates import ensure_certificates
from kcp_py.cli.root import run
from kcp_py.cli.serving import listen, serve
from kcp_py.options import Options

SERVER = Path(__file__).with_name("small_server.py")


@contextlib.contextmanager
def running_server(factory: pytest.TempPathFactory, *program: str, settings: Sequence[str] = ()) -> Iterator[Path]:
    """A server process for the tests of a module; its kubeconfig.

    Args:
        factory: of the directory that it lives in.
        program: what Python runs, which takes the arguments of `kcp-py`.
        settings: further flags of `kcp-py start`.
    """
    root = factory.mktemp("running") / ".kcp"
    process = subprocess.Popen(
        [sys.executable, *program, "start", "--root-directory", str(root), "--secure-port", "0", *settings],
        env={"PYTHONPATH": str(SERVER.parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Ctrl-C" in line:
            break
    try:
        yield root / "admin.kubeconfig"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def command(running, capsys):
    """Runs `kcp-py cluster …` against the server of the module, its fixture `running`: exit code, stdout, stderr."""

    def call(*arguments):
        code = run(["cluster", *arguments, "--kubeconfig", str(running)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def options(tmp_path):
    """Options of a server with a root directory of its own on a free port."""
    return Options(root_directory=tmp_path / "root", secure_port=0, shutdown_grace_period=5)


@pytest.fixture
def certified(options):
    """The same, with certificates made now."""
    ensure_certificates(options, now=dt.datetime.now(dt.UTC))
    return options


@pytest.fixture
def client_context():
    """Makes TLS contexts of clients."""

    def make(options, *, certificate: bool = False, authority: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=authority or options.ca_file)
        if certificate:
            context.load_cert_chain(options.pki_directory / "admin.crt", options.pki_directory / "admin.key")
        return context

    return make


@contextlib.asynccontextmanager
async def _serving(app, options, *, tls=None, on_shutdown=lambda: None):
    """Serves an app within it and yields the port; leaves as the process does, by SIGTERM."""
    listener = listen(options)
    ready = asyncio.Event()
    task = asyncio.create_task(serve(app, listener, options, tls=tls, on_shutdown=on_shutdown, on_ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()
    try:
        yield listener.getsockname()[1]
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await task


@pytest.fixture
def start_server(tmp_path):
    """Starts `kcp-py start` with a small control plane in processes of their own; all are gone after the test."""
    with _starting(str(SERVER), cwd=tmp_path) as start:
        yield start


@pytest.fixture
def start_real_server(tmp_path):
    """Starts `kcp-py start` as it is."""
    with _starting("-m", "kcp_py", cwd=tmp_path) as start:
        yield start


@contextlib.contextmanager
def _starting(*program, cwd):
    processes = []

    def start(*arguments, environ=None):
        process = subprocess.Popen(
            [sys.executable, *program, "start", *arguments],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(SERVER.parents[2]), **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.fixture
def on_a_terminal():
    """Runs a command on a terminal: `on_a_terminal(*command, typed="y\\n", environ={})` returns what is seen and the exit code."""

    def run(*command, typed="", environ=None):
        terminal, end = pty.openpty()
        environ = {**os.environ, "TERM": "xterm", **(environ or {})}
        process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environ, start_new_session=True)
        os.close(end)
        seen = b""
        with os.fdopen(terminal, "rb+", buffering=0) as file:
            file.write(typed.encode())
            # Reading from a terminal whose other end is closed is an error on Linux, not the end of the file.
            with contextlib.suppress(OSError):
                while part := file.read(4096):
                    seen += part
            return seen.decode(), process.wait()

    return run


@pytest.fixture
def serving():
    """An async context manager that serves an app within it: `async with serving(app, options, tls=…) as port`."""
    return _serving


@pytest.fixture
def read_until():
    """Reads what a process prints up to the first line that holds a text: `read_until(process, "ready")`."""
    return _read_until


def _read_until(process, text):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"the process ended: {''.join(lines)}{process.stderr.read()}")
