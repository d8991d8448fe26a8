"""The import of structlog leaves rich out, and rich can be imported afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from kcp_py.cli.structlogimport import import_structlog
{before}
import_structlog()
import structlog
print("rich" in sys.modules, structlog.dev.rich is None)
import rich
print(rich.__name__)
"""


@pytest.mark.parametrize(
    ("before", "imported"),
    [pytest.param("", "False True", id="first"), pytest.param("import rich", "True False", id="rich is there already")],
)
def test_rich_is_left_out(before: str, imported: str) -> None:
    """Tracebacks of the server do not use it. A program that has it keeps it."""
    pytest.importorskip("rich", reason="a package of the environment for checks")
    command = [sys.executable, "-c", CODE.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == [imported, "rich"]
