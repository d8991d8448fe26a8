"""The supervisor of a server is small."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcp_py import __version__
from kcp_py.cli.startedby import MESSAGE
from tests.cli.workers.conftest import TIMEOUT

LARGE = (
    "asyncio",
    "structlog",
    "ctypes",
    "ssl",
    "apsw",
    "click",
    "orjson",
    "dataclasses",
    "datetime",
    "pathlib",
    "pickle",
    "kcp_py.options",
)
"""Modules that take memory, themselves or by what they import."""
MOST_BYTES = 9_000_000
"""The interpreter and its modules take 6 MB; with click and the settings it would take 11."""


def test_the_supervisor_imports_little() -> None:
    """Neither the server nor what reads settings is imported, also not for a line of the log."""
    program = (
        "import sys, kcp_py.__main__, kcp_py.cli.outputs, kcp_py.cli.supervising\n"
        "kcp_py.cli.supervising.PlainLog('info', 'json').info('process_started', process='owner')\n"
        f"print(sorted({set(LARGE)!r} & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert ended.stdout == "[]\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of two processes that serves."""
    command = [sys.executable, "-m", "kcp_py", "start", "--workers", "2", "--secure-port", "0", "--root-directory", str(tmp_path / "root")]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Ctrl-C" in line:
                break
        yield process
    finally:
        process.stdout.close()
        process.terminate()
        assert process.wait(TIMEOUT) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="supervisors are small on Linux alone")
def test_the_process_that_was_started_becomes_small(server: subprocess.Popen[str]) -> None:
    """It keeps nothing of what has read the settings, and shows the command line that was typed."""
    memory = re.search(r"^Private_Dirty: +(\d+) kB", Path(f"/proc/{server.pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert memory is not None
    assert 0 < int(memory[1]) * 1024 < MOST_BYTES
    assert Path(f"/proc/{server.pid}/cmdline").read_bytes().split(b"\0")[1:6] == [b"-m", b"kcp_py", b"start", b"--workers", b"2"]


@pytest.mark.parametrize("value", ["nonsense", "0", "1:0"])
def test_a_variable_of_another_program_changes_nothing(value: str) -> None:
    """A command runs as without it, and leaves its input alone."""
    command = [sys.executable, "-m", "kcp_py", "version"]
    environment = {**os.environ, MESSAGE: value}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert __version__ in ended.stdout
