"""A process that was just forked has a name, and ends with an exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kcp_py.cli.workers.child import OWNER, process_of
from tests.cli.workers.conftest import TIMEOUT

PROGRAM = """
import os
from kcp_py.cli.exits import UsageError
from kcp_py.cli.workers.child import become_child, run_child

def returns():
    print("said", end="")
    return 7

def refuses():
    raise UsageError("--workers: wrong")

def fails():
    raise RuntimeError("a failure")

def has_another_parent():
    become_child(os.getpid())
    return 0

"""


def test_the_first_process_is_the_owner() -> None:
    """The others have numbers."""
    assert [process_of(number).name for number in range(3)] == [OWNER, "worker-1", "worker-2"]


@pytest.mark.parametrize(
    ("run", "code", "printed", "last"),
    [
        ("returns", 7, "said", ""),
        ("refuses", 2, "", "error: --workers: wrong\n"),
        ("fails", 1, "", "RuntimeError: a failure\n"),
        ("has_another_parent", 1, "", ""),
    ],
)
def test_a_process_ends_with_a_code(run: str, code: int, printed: str, last: str) -> None:
    """It does not go on as the process that has forked it, and prints its error."""
    program = f"{PROGRAM}\nrun_child({run})\nprint('goes on')\n"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (ended.returncode, ended.stdout) == (code, printed)
    assert "".join(ended.stderr.splitlines(keepends=True)[-1:]) == last
