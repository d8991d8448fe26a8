"""Programs that tests run many times, without the time of their start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FORKED = """
def _serve():
    import json, os, sys, traceback
    for line in sys.stdin:
        child = os.fork()
        if not child:
            status = 1
            os.dup2(2, 1)  # the codes have the output of the process
            try:
                main(*json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
_serve()
"""


@contextmanager
def forked(program: str) -> Iterator[Callable[..., int]]:
    """Run a program many times without the time of its start: in forks of one process, which has run the imports.

    Args:
        program: source text with a function `main`. What runs before it must neither start threads nor open files.

    Yields:
        Runs `main` with arguments that JSON can express, and returns the exit code; that of a signal is negative.
    """
    with subprocess.Popen([sys.executable, "-c", program + _FORKED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def run(*arguments: str | int) -> int:
            stdin.write(json.dumps(arguments) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield run
