"""A program goes on with a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kcp_py.cli.startedby import MESSAGE
from kcp_py.cli.workers.freshstart import received
from tests.cli.workers.conftest import TIMEOUT

PROGRAM = """
import os, sys
from kcp_py.cli.startedby import MESSAGE
from kcp_py.cli.workers.freshstart import received, start_afresh

if MESSAGE in os.environ:
    message = received()
    with open("/proc/self/comm") as name:
        print(message, os.getpid(), name.read().strip(), sys.argv[1:], MESSAGE in os.environ, "wave" in sys.modules)
    descriptors = sorted(int(one) for one in os.listdir("/proc/self/fd"))
    print(len(descriptors))
else:
    import wave
    with open("/proc/self/comm", "w") as name:
        name.write("a-name")
    print(os.getpid(), len(os.listdir("/proc/self/fd")))
    {before}
    start_afresh(b"told\\0" * 30_000 if "long" in sys.argv else b"told\\n")
    print("not possible")
"""


def run(before: str, *arguments: str) -> list[str]:
    """The lines that the program prints."""
    command = [sys.executable, "-c", PROGRAM.replace("{before}", before), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="there are files in memory on Linux alone")
def test_the_program_begins_again_in_its_process() -> None:
    """It has its message, id, name, arguments and output, none of its modules, and no further file open."""
    first, second, files = run("pass", "one", "two")
    pid, before = first.split()
    assert second == f"{b'told' + bytes([10])!r} {pid} a-name ['one', 'two'] False False"
    assert files == before


@pytest.mark.skipif(sys.platform != "linux", reason="there are files in memory on Linux alone")
def test_a_message_may_be_long() -> None:
    """It is a file, and so larger than the buffer of a pipe."""
    assert run("pass", "long")[1].count(r"told\x00") == 30_000


@pytest.mark.parametrize(
    "before", ["sys.executable = ''", "sys.executable = '/does/not/exist'", "sys.frozen = True", "del os.memfd_create"]
)
def test_a_program_that_cannot_begin_again_goes_on(before: str) -> None:
    """Where there is no interpreter, or no file in memory, the call returns and leaves nothing open."""
    lines = run(f"{before}; os.memfd_create" if sys.platform != "linux" else before)
    assert lines[1:] == ["not possible"]


def test_no_message_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A descriptor that is not open has none."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    monkeypatch.setenv(MESSAGE, str(descriptor))
    with pytest.raises(OSError, match="Bad file descriptor"):
        received()
