"""`SharedCounts`: numbers that the processes of one server have under keys, each readable by all of them.

A limit of the whole server needs what all processes count. Each process writes to a table of its own, so that no process waits for
another one, and reads the tables of the others. Two processes that count at the same moment may each miss the other's last step.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable
from typing import Final

PLACES: Final = 1 << 14
"""Keys for which the table of one process has places."""
_WINDOW: Final = 8
"""Places that a key can have."""
_ROW: Final = PLACES + _WINDOW
_WORD_BYTES: Final = 8
_WORD: Final = (1 << 64) - 1


class SharedCounts:
    """The tables of all processes, in memory that processes forked from now on share. Only places in use take memory."""

    def __init__(self, processes: int) -> None:
        """All numbers are 0.

        Args:
            processes: how many there are.
        """
        self._processes = processes
        self._words = memoryview(mmap.mmap(-1, 2 * processes * _ROW * _WORD_BYTES)).cast("Q")

    def of(self, number: int) -> Counts:
        """The part of one process.

        Args:
            number: of the process, from 0 on.
        """
        return Counts([self._row(one) for one in range(self._processes) if one != number], self._row(number))

    def clear(self, number: int) -> None:
        """Set the numbers of a process that has ended to 0."""
        keys, values = self._row(number)
        for at, key in enumerate(keys.tolist()):
            if key:
                keys[at] = 0
                values[at] = 0

    def _row(self, number: int) -> tuple[memoryview, memoryview]:
        begin = 2 * number * _ROW
        return self._words[begin : begin + _ROW], self._words[begin + _ROW : begin + 2 * _ROW]


class Counts:
    """The numbers of one process, and what it reads of the others. Keys are those of `key_of`."""

    def __init__(self, others: list[tuple[memoryview, memoryview]], own: tuple[memoryview, memoryview]) -> None:
        """Made by `SharedCounts.of`."""
        self._others = others
        self._keys, self._values = own

    def set(self, key: int, value: int, *, replace: bool = False) -> None:
        """Set the number of this process.

        Args:
            key: of the number.
            value: below 2**64; 0 removes the key.
            replace: whether the smallest number near it is given up when the key has no place. Otherwise the others do not see this one.
        """
        at = key % PLACES
        near = self._keys[at : at + _WINDOW].tolist()
        if key in near:
            at += near.index(key)
        elif not value:
            return
        elif 0 in near:
            at += near.index(0)
        elif replace:
            values = self._values[at : at + _WINDOW].tolist()
            at += values.index(min(values))
            self._keys[at] = 0
        else:
            return
        # A reader that finds the key finds its number.
        self._values[at] = value
        self._keys[at] = key if value else 0

    def total(self, key: int) -> int:
        """The sum of the numbers of the other processes."""
        return sum(self._found(key))

    def largest(self, key: int) -> int:
        """The largest number of the other processes; 0 without one."""
        return max(self._found(key), default=0)

    def _found(self, key: int) -> list[int]:
        at = key % PLACES
        found = []
        for keys, values in self._others:
            near = keys[at : at + _WINDOW].tolist()
            if key in near:
                found.append(values[at + near.index(key)])
        return found


def key_of(*parts: Hashable) -> int:
    """The key of texts and numbers: the same in all forks of one process, and different for different parts but for one chance in 2**64."""
    return hash(parts) & _WORD or 1
