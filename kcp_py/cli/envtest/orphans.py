"""`Orphan`: the end of a test server whose test was killed, which then cannot stop it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

IDLE_SECONDS: Final = 300.0
"""A server without requests is used again at most this long after the process that started it has ended, as between two steps of a job."""
_LOOK_SECONDS: Final = 5.0
_FIRST_PROCESS: Final = 1


class Orphan:
    """An ASGI application around another one, which notes when it is used."""

    def __init__(
        self,
        app: Any,
        *,
        started_by: int | None = None,
        parent: Callable[[], int] = os.getppid,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            app: the application.
            started_by: the process that started this one; None for the present parent. The first process of the system starts no tests: it
                has taken over what a killed test had started.
            parent: the process that started this one, or which has taken it over.
            clock: seconds.
        """
        self._app = app
        self._parent = parent
        self._clock = clock
        self._started_by = parent() if started_by is None else started_by
        self._running = 0
        self._used_at = clock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1
            self._used_at = self._clock()

    @property
    def is_unused(self) -> bool:
        """Whether the process that started this one has ended, and no request has come for some time."""
        # The lifespan of the application is one call that goes on.
        is_orphan = self._started_by == _FIRST_PROCESS or self._parent() != self._started_by
        return is_orphan and self._running <= 1 and self._clock() - self._used_at >= IDLE_SECONDS

    async def end_when_unused(self) -> None:
        """Stop this process when it is unused."""
        while not self.is_unused:  # noqa: ASYNC110 - nothing tells that another process has ended
            await asyncio.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
