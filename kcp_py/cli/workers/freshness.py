"""`Freshness`: lets a request begin when the caches of its process know all writes that were acknowledged before.

Definitions, clusters, roles and tokens are cached, and the caches follow the events of the store. Another process may have acknowledged a
write a moment before its event is here. A client whose next request goes to this process must find what it has written.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from kcp_py.serving.context import ASGIApp
from kcp_py.storage.shared import SharedRevisions
from kcp_py.watchcache import Fanout

LONGEST_WAIT: Final = 2.0
"""Seconds after which a request goes on without the events, as on a server of its own: then guards of writes and reads of the file hold."""


class Freshness:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, fanout: Fanout, revisions: SharedRevisions) -> None:
        """Wrap an application.

        Args:
            app: the application.
            fanout: distributes the events to the caches.
            revisions: those that the owner of the store sets.
        """
        self._app = app
        self._fanout = fanout
        self._revisions = revisions

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        acknowledged = self._revisions.acknowledged
        if self._fanout.revision < acknowledged:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT):
                    await self._fanout.reached(acknowledged)
        await self._app(scope, receive, send)
