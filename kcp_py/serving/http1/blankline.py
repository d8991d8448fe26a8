"""`BlankLineSearch`: finds the end of a head or of a trailer section in bytes that arrive in parts."""

from __future__ import annotations

from typing import Final

BLANK_LINE: Final = b"\r\n\r\n"
"""The end of a line and an empty line behind it."""

_OVERLAP: Final = len(BLANK_LINE) - 1


class BlankLineSearch:
    """Looks for `BLANK_LINE`, which may be split between two or more parts.

    Attributes:
        tail: the last bytes that were searched, where they may be the beginning of a blank line. Set it to `b""` to begin anew.
    """

    __slots__ = ("tail",)

    def __init__(self) -> None:
        self.tail = b""

    def end(self, data: bytes, start: int) -> int:
        """The index behind the next blank line, or the length of the data where there is none yet.

        Args:
            data: continues the data of the last call.
            start: where the search begins; below the length of `data`.
        """
        tail = self.tail
        if tail:
            self.tail = b""
            across = (tail + data[start : start + _OVERLAP]).find(BLANK_LINE)
            if across >= 0:
                return start + across + len(BLANK_LINE) - len(tail)
        found = data.find(BLANK_LINE, start)
        if found >= 0:
            return found + len(BLANK_LINE)
        self.tail = (tail + data[max(start, len(data) - _OVERLAP) :])[-_OVERLAP:]
        return len(data)

    def cut(self, data: bytes, end: int) -> None:
        """The search goes on at `end`, before what it found. At least three bytes before it were searched."""
        self.tail = data[end - _OVERLAP : end]
