"""`import_structlog`: the import of structlog without rich."""

from __future__ import annotations

import sys
from typing import cast


def import_structlog() -> None:
    """Import structlog without rich, which it imports where it is installed, for coloured tracebacks that this program does not print.

    rich and what it imports would be a twentieth of the memory of an idle server. For the start of a process, before other threads import.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    modules: dict[str, object] = cast("dict[str, object]", sys.modules)
    modules["rich"] = None  # as an import that failed
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
