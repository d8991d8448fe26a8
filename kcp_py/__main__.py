"""The program: `kcp-py`, or `python -m kcp_py`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from kcp_py.cli.root import run  # noqa: PLC0415 - importing this module must cost nothing

    sys.exit(run())


if __name__ == "__main__":
    main()
