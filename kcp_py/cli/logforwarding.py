"""What libraries write to the standard library's logging, in the form of the server's own log."""

from __future__ import annotations

import asyncio
import logging

import structlog


class _Forwarding(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError):
            # uvicorn logs each request that it cancels at the end of the shutdown's grace period, behind one line with their number.
            return
        try:
            structlog.get_logger().log(
                record.levelno, "library_message", logger=record.name, message=record.getMessage(), exc_info=record.exc_info
            )
        except Exception:  # noqa: BLE001 - a handler must not fail its caller
            self.handleError(record)


def forward_standard_logging() -> None:
    """Send warnings and errors of every library to structlog, which must be configured."""
    logging.basicConfig(handlers=[_Forwarding()], level=logging.WARNING, force=True)
    # Its warnings are one line per malformed request: any client could fill the log with them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
