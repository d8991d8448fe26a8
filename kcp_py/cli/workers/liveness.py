"""`Liveness`: for how long a process has not answered, by its own fault.

The supervisor asks each process whether its event loop runs. A process that does not answer hangs, or it had no chance to answer: the whole
machine was paused, or others had the cores. Time counts only if the supervisor ran meanwhile, and the process did not wait for a core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LONGEST_INTERVAL: Final = 5.0
"""Seconds between two questions."""
_PARTS: Final = 4
"""Questions within the longest silence."""


def interval_of(timeout: float) -> float:
    """Seconds between two questions.

    Args:
        timeout: the longest silence.
    """
    return min(LONGEST_INTERVAL, timeout / _PARTS)


def core_wait(pid: int) -> float:
    """Seconds for which the first thread of a process was ready to run and had no core; 0 where the system does not tell.

    Source: `/proc/PID/schedstat`, the second number
    (https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat).
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as figures:  # noqa: PTH123 - the supervisor does without pathlib
            return int(figures.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Liveness:
    """The silence of one process."""

    def __init__(self, interval: float, wait: Callable[[], float]) -> None:
        """The process answers.

        Args:
            interval: seconds between two looks.
            wait: seconds for which it has waited for a core so far.
        """
        self._interval = interval
        self._wait = wait
        self._asked_at: float | None = None
        self._looked_at = 0.0
        self._waited = 0.0
        self.silence = 0.0
        """Seconds that count."""

    def look(self, now: float) -> bool:
        """Count the time since the last look. Returns whether to ask: there is no question without an answer.

        Args:
            now: monotonic seconds.
        """
        waited = self._wait()
        asks = self._asked_at is None
        if asks:
            self._asked_at = now
        else:
            # Of a look that comes late, the time is that in which this process did not run either.
            passed = min(now - self._looked_at, 2 * self._interval)
            self.silence += max(0.0, passed - (waited - self._waited))
        self._looked_at, self._waited = now, waited
        return asks

    def answered(self) -> None:
        """The process has answered."""
        self._asked_at = None
        self.silence = 0.0
