"""Logging: structlog for events, a bare writer for access lines. Keys are the field's own words (`audit_id`, `verb`, `user`, `code`)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Literal

import orjson
import structlog

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_LATEST_WRITE_SECONDS: Final = 0.1
_FULL_LINES: Final = 512


def configure_logging(
    level: Literal["debug", "info", "warning", "error"] = "info",
    style: Literal["auto", "json", "text"] = "auto",
    stream: BinaryIO | None = None,
) -> None:
    """Set up structlog for this process.

    Args:
        level: the least severity that is logged.
        style: `auto` is text on a terminal and JSON elsewhere.
        stream: where lines go; standard error if not given.
    """
    out = stream if stream is not None else sys.stderr.buffer
    text = style == "text" or (style == "auto" and out.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if text:
        # Not the renderer's own choice of tracebacks: the rich ones print local variables, credentials among them.
        renderer = structlog.dev.ConsoleRenderer(
            colors=out.isatty() and not os.environ.get("NO_COLOR"), exception_formatter=structlog.dev.plain_traceback
        )
        shared.append(renderer)
        factory: Any = structlog.PrintLoggerFactory(sys.stderr)
    else:
        shared += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dump)]
        factory = structlog.BytesLoggerFactory(out)
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def _dump(value: Any, **_options: Any) -> bytes:
    return orjson.dumps(value, default=repr)


class AccessLog:
    """Access lines: JSON, one per request, written in bundles so that a request never waits for the disk or the terminal."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        """Make a log.

        Args:
            write: takes whole lines and passes them on at once; called from the event loop at most ten times a second, or sooner when many
                lines wait.
        """
        self._write = write
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def to_stream(cls, stream: BinaryIO) -> AccessLog:
        """A log that writes to a file or to standard error, without leaving lines in its buffer."""

        def write(lines: bytes) -> None:
            stream.write(lines)
            stream.flush()

        return cls(write)

    def record(self, line: Mapping[str, Any]) -> None:
        """Add one line; values are JSON's."""
        self._lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
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
