"""`Turns`: tasks that contend for the same thing take turns, in the order in which they have asked."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Turns:
    """Who has the turn, and who waits for it, by key, for the tasks of one event loop. A key takes memory while a task has its turn."""

    def __init__(self) -> None:
        """No task has a turn."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def __contains__(self, key: str) -> bool:
        """Whether a task has the turn of a key, so that others would wait."""
        return key in self._waiting

    async def take(self, key: str) -> None:
        """Wait for the turn of a key. It has to be given back by `give`, except by a task that was cancelled while it waited."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):
                    waiting.remove(turn)
            else:
                self.give(key)  # it was given the turn and cancelled at the same time
            raise

    def give(self, key: str) -> None:
        """Let the next task have the turn of a key."""
        waiting = self._waiting[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]
