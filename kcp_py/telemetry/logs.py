"""Logging: structlog for events, a bundling writer for access lines.

Every event is named in `kcp_py.telemetry.events`. Fields have the words of Kubernetes (`audit_id`, `verb`, `user`, `cluster`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, BinaryIO, Final, Literal

import structlog

from kcp_py.telemetry.lines import console_line, json_line, redact

Level = Literal["debug", "info", "warning", "error"]
Style = Literal["auto", "json", "console", "text"]
"""`auto` is `console` on a terminal and `json` elsewhere; `text` is another name of `console`."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_LATEST_WRITE_SECONDS: Final = 0.1
_FULL_LINES: Final = 512
_WINDOW_SECONDS: Final = 10.0
MAX_PROBLEMS: Final = 100
"""Problems that are recorded in ten seconds."""

Render = Callable[[Mapping[str, Any]], bytes]


def renderer(style: Style, stream: BinaryIO) -> Render:
    """What makes a line of an event, for a stream; colours are used on terminals only, and not where NO_COLOR is set."""
    terminal = stream.isatty()
    if style == "json" or (style == "auto" and not terminal):
        return json_line
    colours = terminal and not os.environ.get("NO_COLOR")
    return lambda line: console_line(line, colours=colours)


def configure_logging(level: Level = "info", style: Style = "auto", stream: BinaryIO | None = None) -> None:
    """Set up structlog for this process.

    Args:
        level: the least severity that is logged.
        style: how lines look.
        stream: where lines go; standard error if not given.
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
            # Not the renderer's own choice of tracebacks: the rich ones print local variables, credentials among them.
            structlog.processors.format_exc_info,
            finish,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_arguments: _LineLogger(out),
        cache_logger_on_first_use=False,
    )


def _write(stream: BinaryIO, data: bytes) -> None:
    # A closed pipe or a full disk below the log must not fail the request that is logged.
    with contextlib.suppress(OSError, ValueError):
        stream.write(data)
        stream.flush()


class _LineLogger:
    """The innermost logger: takes whole lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def msg(self, line: bytes) -> None:
        _write(self._stream, line)

    debug = info = warning = error = critical = exception = msg


class AccessLog:
    """Access lines, one per request, written in bundles so that a request never waits for the disk or the terminal."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        render: Render = json_line,
        every: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a log.

        Args:
            write: takes whole lines and passes them on at once; called from the event loop at most ten times a second, or sooner when many
                lines wait.
            render: makes a line, with its newline.
            every: whether every request is recorded, and not only those that failed or took long.
            now: seconds that do not go back.
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
        """A log that writes to a file or to standard error, without leaving lines in its buffer."""

        def write(lines: bytes) -> None:
            _write(stream, lines)

        return cls(write, render=renderer(style, stream), every=every)

    def admit(self) -> bool:
        """Whether one more problem may be recorded: clients that cause them must not fill the disk. Others are counted."""
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
        """Add one line; it says how many problems were not admitted before it."""
        if self._suppressed:
            line["suppressed"], self._suppressed = self._suppressed, 0
        self._lines.append(self._render(line))
        if len(self._lines) >= _FULL_LINES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LATEST_WRITE_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what waits; also to be called at shutdown."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            lines, self._lines = self._lines, []
            self._write(b"".join(lines))
