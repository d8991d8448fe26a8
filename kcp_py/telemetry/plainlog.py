"""`PlainLog`: events without structlog, for a process that logs rarely and has to be small.

The lines are those of `kcp_py.telemetry.logs`. An event has no context variables and no traceback.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from kcp_py.telemetry.lines import Level, Style, redact, renderer

_LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")


class PlainLog:
    """A logger with the methods of a structlog logger that such a process needs."""

    def __init__(self, level: Level = "info", style: Style = "auto", stream: BinaryIO | None = None) -> None:
        """Log nothing yet.

        Args:
            level: the lowest severity that is logged.
            style: the format of lines.
            stream: the output; standard error by default.
        """
        self._stream = stream if stream is not None else sys.stderr.buffer
        self._render = renderer(style, self._stream, _dumps)
        self._logged = frozenset(_LEVELS[_LEVELS.index(level) :])

    def info(self, event: str, **fields: Any) -> None:
        """Log an event with the severity `info`."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event with the severity `warning`."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log an event with the severity `error`."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        if level not in self._logged:
            return
        line = self._render({"timestamp": _now(), "level": level, "event": event} | dict(redact(fields)))
        # A closed pipe or a full disk must not end the process.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line)
            self._stream.flush()


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    # The module `datetime` would take a tenth of the memory of such a process.
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1000:06}Z"


def _dumps(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=repr).encode()
