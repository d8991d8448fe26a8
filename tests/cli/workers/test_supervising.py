"""The supervisor of a server is small."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.workers.conftest import TIMEOUT


def test_the_supervisor_does_not_import_the_server() -> None:
    """Neither the event loop nor the logging library nor the server is imported with it."""
    program = (
        "import sys, kcp_py.cli.start, kcp_py.cli.workers.supervising\n"
        "print(sorted({'asyncio', 'structlog', 'ctypes', 'ssl', 'apsw', 'kcp_py.controlplane', 'kcp_py.cli.process'} & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert ended.stdout == "[]\n"
