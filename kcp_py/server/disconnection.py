"""`DisconnectWatch`: whether the client of a request has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import Receive

ON_DISCONNECT: Final = "on_disconnect"
"""Where `scope["state"]` holds, if the server offers it, `register(callback) -> unregister`; spares a task per stream."""


class DisconnectWatch:
    """Calls functions once when the client goes away, at the earliest in the next turn of the loop. Most requests have none.

    Where the server offers no registration, a task reads the channel: the body must have been read, or be of no interest.
    """

    __slots__ = ("_callbacks", "_receive", "_unregister", "_watcher")

    def __init__(self, state: Mapping[str, Any], receive: Receive, callback: Callable[[], None]) -> None:
        """Begin.

        Args:
            state: of the scope.
            receive: of ASGI.
            callback: the first function.
        """
        self._callbacks = [callback]
        self._receive = receive
        self._unregister: Callable[[], None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        register: Callable[[Callable[[], None]], Callable[[], None]] | None = state.get(ON_DISCONNECT)
        if register is not None:
            self._unregister = register(self._disconnected)
        else:
            self._watcher = asyncio.create_task(self._wait_for_disconnect(), name="watch for disconnect")

    def add(self, callback: Callable[[], None]) -> None:
        """Call a further function, too."""
        self._callbacks.append(callback)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected()

    def _disconnected(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def stop(self) -> None:
        """Call nothing more."""
        self._callbacks = []
        if self._unregister is not None:
            self._unregister()
            self._unregister = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
