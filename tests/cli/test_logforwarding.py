"""Messages of libraries in the server's log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from kcp_py.cli.logforwarding import forward_standard_logging


@pytest.fixture
def forwarding() -> Iterator[None]:
    """Forwards, and restores the standard library's logging afterwards."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn.error")
    handlers, levels = root.handlers[:], (root.level, uvicorn.level)
    # `basicConfig` closes the handlers that it replaces, which are pytest's.
    root.handlers.clear()
    forward_standard_logging()
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    uvicorn.setLevel(levels[1])


@pytest.mark.usefixtures("forwarding")
def test_requests_cancelled_by_the_shutdown_are_one_line() -> None:
    """Watches whose clients do not read are logged by their number, without tracebacks. Failures keep theirs."""
    logger = logging.getLogger("uvicorn.error")
    failure = ValueError("broken")
    with capture_logs() as lines:
        logger.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 2)
        for error in (asyncio.CancelledError(), asyncio.CancelledError("shutdown"), failure):
            logger.error("Exception in ASGI application\n", exc_info=error)
    assert [(line["message"], (line["exc_info"] or (None, None))[1]) for line in lines] == [
        ("Cancel 2 running task(s), timeout graceful shutdown exceeded", None),
        ("Exception in ASGI application\n", failure),
    ]
