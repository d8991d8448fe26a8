"""What the tests of the command line share."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kcp_py.cli.root import run
from tests.serving.conftest import certified, options, serving

__all__ = ["certified", "options", "serving"]

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
    """Runs a command on a terminal: `on_a_terminal(*command, typed="y\\n", environ={})` returns the output and the exit code."""

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
