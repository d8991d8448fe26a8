"""`BlockingClient`: the client of one cluster for functions that run in threads."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from kcp_py.client.clusterclient import ClusterClient


class BlockingClient:
    """The methods of a `ClusterClient`, each of which waits for its answer. `watch` and `iterate` are not among them.

    After the end of the work that it was given for, as when the process no longer leads, each method raises `RuntimeError`: a thread
    cannot be interrupted, but it cannot write any more either.
    """

    def __init__(self, client: ClusterClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._ended = False

    def end(self) -> None:
        """Refuse further calls."""
        self._ended = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            if self._ended:
                raise RuntimeError("this work has ended: another process may do it now")
            return asyncio.run_coroutine_threadsafe(found(*args, **options), self._loop).result()

        return call
