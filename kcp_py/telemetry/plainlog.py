"""`PlainLog`: events without structlog, for a process that logs rarely and has to be small.

The lines are those of `kcp_py.telemetry.logs`. An event has no context variables and no traceback.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
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
        self._render = renderer(style, self._stream)
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
        timestamp = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z")
        line = self._render({"timestamp": timestamp, "level": level, "event": event} | dict(redact(fields)))
        # A closed pipe or a full disk must not end the process.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line)
            self._stream.flush()
