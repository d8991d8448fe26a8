"""A program goes on with a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcp_py.cli.startedby import MESSAGE
from kcp_py.cli.workers import freshstart
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


@pytest.mark.parametrize("arguments", [["-"], [], ["/dev/stdin"]])
def test_a_program_of_a_stream_goes_on(arguments: list[str]) -> None:
    """It cannot be read a second time."""
    program = PROGRAM.replace("{before}", "pass")
    ended = subprocess.run([sys.executable, *arguments], input=program, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert ended.stdout.splitlines()[1:] == ["not possible"]


@pytest.mark.parametrize("value", ["", "nonsense", "3", "{pid}", "{pid}:", "{pid}:x", "{pid}:-1", "{pid}:1000000", "{pid}:../self/fd/0"])
def test_nonsense_is_no_message(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says else is dropped."""
    monkeypatch.setenv(MESSAGE, value.replace("{pid}", str(os.getpid())))
    assert received() is None
    assert MESSAGE not in os.environ


def test_another_file_is_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the program did not make is neither read nor closed."""
    with (tmp_path / "prepared").open("w+b") as file:
        file.write(b"\0prepared")
        file.seek(0)
        monkeypatch.setenv(MESSAGE, f"{os.getpid()}:{file.fileno()}")
        assert received() is None
        assert file.read() == b"\0prepared"


@pytest.mark.skipif(sys.platform != "linux", reason="there are files in memory on Linux alone")
def test_a_message_for_another_process_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that inherits the environment and the file does not take them for its own."""
    with os.fdopen(os.memfd_create("kcp-py", 0), "w+b") as file:
        file.write(b"\0told")
        file.seek(0)
        monkeypatch.setenv(MESSAGE, f"{os.getppid()}:{file.fileno()}")
        assert received() is None
        assert file.read() == b"\0told"


@pytest.mark.skipif(sys.platform != "linux", reason="there are files in memory on Linux alone")
def test_a_name_that_cannot_be_set_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc is read-only, the message arrives and the process keeps the name of the interpreter."""
    monkeypatch.setattr(freshstart, "_NAME", str(tmp_path))
    descriptor = os.memfd_create("kcp-py", 0)
    os.write(descriptor, b"\x04nametold")
    os.lseek(descriptor, 0, os.SEEK_SET)
    monkeypatch.setenv(MESSAGE, f"{os.getpid()}:{descriptor}")
    assert received() == b"told"
