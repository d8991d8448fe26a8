"""`ConnectionCounts`: how processes that accept from one socket share the connections.

The system wakes all of them for each connection, and the first one takes it, so that one process could serve most clients while others are
idle. A process that has more connections than another one leaves a new one to the others for a moment, and takes it if it is still there:
then the others are busy.
"""

from __future__ import annotations

import mmap
from typing import Final

DELAY: Final = 0.001
"""Seconds for which a process leaves a connection to others."""
_WORD_BYTES: Final = 8
_ABSENT: Final = (1 << 64) - 1


class ConnectionCounts:
    """The number of connections of each process, in memory that processes forked from now on share."""

    def __init__(self, processes: int) -> None:
        """No process accepts yet."""
        self._words = memoryview(mmap.mmap(-1, processes * _WORD_BYTES)).cast("Q")
        for number in range(processes):
            self.leave(number)

    def record(self, number: int, connections: int) -> None:
        """Record how many connections a process has. It accepts further ones.

        Args:
            number: of the process, from 0 on.
            connections: that it has open.
        """
        self._words[number] = connections

    def delay(self, number: int, connections: int) -> float:
        """Record as `record`. Returns the seconds for which the process leaves a connection to others; 0 to accept it."""
        self.record(number, connections)
        return DELAY if connections > min(self._words) else 0.0

    def leave(self, number: int) -> None:
        """Record that a process does not accept any more."""
        self._words[number] = _ABSENT


class Turns:
    """The part of one process."""

    def __init__(self, counts: ConnectionCounts, number: int) -> None:
        self._counts = counts
        self._number = number

    def delay(self, connections: int) -> float:
        """See `ConnectionCounts.delay`."""
        return self._counts.delay(self._number, connections)

    def record(self, connections: int) -> None:
        """See `ConnectionCounts.record`."""
        self._counts.record(self._number, connections)

    def leave(self) -> None:
        """See `ConnectionCounts.leave`."""
        self._counts.leave(self._number)
