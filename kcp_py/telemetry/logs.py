"""Logging: structlog for events, a bundling writer for access lines.

Every event is named in `kcp_py.telemetry.events`. Fields have the names of Kubernetes (`audit_id`, `verb`, `user`, `cluster`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, BinaryIO, Final

import structlog

from kcp_py.telemetry.lines import Level, Render, Style, json_line, redact, renderer

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_LATEST_WRITE_SECONDS: Final = 0.1
_FULL_LINES: Final = 512
_WINDOW_SECONDS: Final = 10.0
MAX_PROBLEMS: Final = 100
"""Problems that are recorded in ten seconds."""


def configure_logging(level: Level = "info", style: Style = "auto", stream: BinaryIO | None = None) -> None:
    """Set up structlog for this process.

    Args:
        level: the lowest severity that is logged.
        style: the format of lines.
        stream: the output; standard error by default.
    """
    out = stream if stream is not None else sys.stderr.buffer
    render = renderer(style, out)

    def finish(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> bytes:
        leading: dict[str, Any] = {name: event.pop(name) for name in ("timestamp", "level", "event")}
        return render(leading | dict(redact(event)))

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # The default tracebacks of the renderer print local variables, which may contain credentials.
            structlog.processors.format_exc_info,
            finish,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_arguments: _LineLogger(out),
        cache_logger_on_first_use=False,
    )


def configure_embedded_logging() -> None:
    """Set up structlog for warnings on standard error, unless the program has. Its default prints debug lines on standard output."""
    if not structlog.is_configured():
        configure_logging("warning", "text")


def _write(stream: BinaryIO, data: bytes) -> None:
    # A closed pipe or a full disk must not make the logged request fail.
    with contextlib.suppress(OSError, ValueError):
        stream.write(data)
        stream.flush()


class _LineLogger:
    """The innermost logger, which receives whole lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def msg(self, line: bytes) -> None:
        _write(self._stream, line)

    debug = info = warning = error = critical = exception = msg


class AccessLog:
    """Access lines, one per request, written in groups so that requests never wait for the disk or the terminal."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        render: Render = json_line,
        every: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a log.

        Args:
            write: writes whole lines at once. It is called on the event loop at most ten times a second, or earlier when many lines wait.
            render: returns a line with its newline.
            every: whether all requests are recorded, or only those that failed or were slow.
            now: monotonic seconds.
        """
        self._write = write
        self._render = render
        self.every = every
        self._now = now
        self._window = 0.0
        self._admitted = 0
        self._suppressed = 0
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def to_stream(cls, stream: BinaryIO, style: Style = "json", *, every: bool = True) -> AccessLog:
        """A log that writes to a file or to standard error and flushes its buffer."""

        def write(lines: bytes) -> None:
            _write(stream, lines)

        return cls(write, render=renderer(style, stream), every=every)

    def admit(self) -> bool:
        """Whether one more problem may be recorded. Their number is limited, because clients that cause them must not fill the disk."""
        now = self._now()
        if now >= self._window:
            self._window = now + _WINDOW_SECONDS
            self._admitted = 0
        self._admitted += 1
        if self._admitted > MAX_PROBLEMS:
            self._suppressed += 1
            return False
        return True

    def record(self, line: MutableMapping[str, Any]) -> None:
        """Add one line. It contains the number of problems that were suppressed before it."""
        if self._suppressed:
            line["suppressed"], self._suppressed = self._suppressed, 0
        self._lines.append(self._render(line))
        if len(self._lines) >= _FULL_LINES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LATEST_WRITE_SECONDS, self.flush)

    def flush(self) -> None:
        """Write the waiting lines. Also called at shutdown."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            lines, self._lines = self._lines, []
            self._write(b"".join(lines))
