"""`BlankLineSearch`: finds the end of a head or of a trailer section in bytes that arrive in parts."""

from __future__ import annotations

from typing import Final

BLANK_LINE: Final = b"\r\n\r\n"
"""The end of a line and an empty line behind it."""

_OVERLAP: Final = len(BLANK_LINE) - 1


class BlankLineSearch:
    """Looks for `BLANK_LINE`, which may be split between two or more parts."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        # The last bytes that were searched, where they may be the beginning of a blank line.
        self._tail = b""

    @property
    def is_clear(self) -> bool:
        """Whether nothing was searched that may be the beginning of a blank line."""
        return not self._tail

    def end(self, data: bytes, start: int) -> int:
        """The index behind the next blank line, or the length of the data where there is none yet.

        Args:
            data: continues the data of the last call.
            start: where the search begins; below the length of `data`.
        """
        tail = self._tail
        if tail:
            self._tail = b""
            across = (tail + data[start : start + _OVERLAP]).find(BLANK_LINE)
            if across >= 0:
                return start + across + len(BLANK_LINE) - len(tail)
        found = data.find(BLANK_LINE, start)
        if found >= 0:
            return found + len(BLANK_LINE)
        self._tail = (tail + data[max(start, len(data) - _OVERLAP) :])[-_OVERLAP:]
        return len(data)

    def cut(self, data: bytes, end: int) -> None:
        """The search goes on at `end`, before what it found. At least three bytes before it were searched."""
        self._tail = data[end - _OVERLAP : end]

    def clear(self) -> None:
        """Begin anew."""
        self._tail = b""
