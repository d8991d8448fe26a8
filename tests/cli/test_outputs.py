"""A program prints whatever it is given, also where its caller has closed the outputs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys
from kcp_py.cli.outputs import prepare_outputs

prepare_outputs()
print("\\u2714 done")
print("an error", file=sys.stderr)
opened = os.open("/dev/null", os.O_RDONLY)
os.write(int(sys.argv[1]), str(opened > 2).encode())
"""


def test_texts_without_an_encoding_are_escaped() -> None:
    """A terminal that knows ASCII alone gets an escape instead of an error."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "1"], capture_output=True, text=True, check=True, env={"PYTHONIOENCODING": "ascii:strict"}
    )
    assert ended.stderr == "an error\n"
    assert r"\u2714 done" in ended.stdout


def test_closed_outputs_are_opened() -> None:
    """Printed text is dropped, and no later file gets the descriptor of an output."""
    command = f"exec 3>&1 '{sys.executable}' -c '{PROGRAM}' 3 >&- 2>&-"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("True", "")
