"""`Deadlines`: when postponed work is due, independent of changes of the machine's clock.

The time at which something is due is stored in objects as a time of day, so that it outlives the process. The time of day can be set. If it
is set forward, a grace period ends early; if it is set back, the period lasts longer. So the time of day counts once, when a process sees
the object for the first time. From then on a clock counts that cannot be set.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kcp_py.controllers.runtime.queue import Key


class Deadlines:
    """The deadlines that one controller knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know none yet; `clock` gives seconds that do not go back."""
        self._clock = clock
        self._due: dict[Key, tuple[str, float]] = {}

    def remaining(self, key: Key, deadline: str, seconds: float) -> float:
        """Seconds until a deadline; 0 or less where it has passed.

        Args:
            key: the object.
            deadline: names the deadline; another one of the same object replaces it.
            seconds: what remains by the time of day. It counts for a deadline that is not known yet.
        """
        now = self._clock()
        known, due = self._due.get(key, ("", 0.0))
        if known != deadline:
            due = now + seconds
            self._due[key] = deadline, due
        return due - now

    def forget(self, key: Key) -> None:
        """Drop the deadline of an object."""
        self._due.pop(key, None)

    def __len__(self) -> int:
        """How many are known."""
        return len(self._due)
