"""The program: `kcp-py`, or `python -m kcp_py`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and end the process with its exit code."""
    try:
        from kcp_py.cli.startedby import MESSAGE  # noqa: PLC0415 - before all that takes time

        code = None
        # Nothing is repeated twice, even where the message is not accepted.
        repeatable = MESSAGE not in os.environ
        if not repeatable:
            from kcp_py.cli.supervising import supervise_afresh  # noqa: PLC0415 - it has to be small

            code = supervise_afresh()
        if code is None:
            from kcp_py.cli.root import run  # noqa: PLC0415 - importing this module must cost nothing

            code = run(repeatable=repeatable)
    except KeyboardInterrupt:
        # `run` handles the interrupts of commands: this one came during the imports.
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
