"""`RequestLine`: the request line of a request, which may arrive in parts, as the parser must get it."""

from __future__ import annotations

from typing import Final

from kcp_py.serving.http1.methods import COMMON_METHODS, read_method

_SPACES: Final = 2
"""In a request line (RFC 9112, 3). The parser would take more."""


def is_whole_line(data: bytes) -> bool:
    """Whether the bytes from the beginning of a request begin with a whole line that the parser gets as it is."""
    return data.startswith(COMMON_METHODS) and data.count(b" ", 0, data.find(b"\n")) == _SPACES


class RequestLine:
    """One request line.

    Attributes:
        begun: the first bytes of the request, if they came without a complete method; the parser got nothing of them at that time.
        is_complete: whether all of the line has come.
        method: the method that the parser has another name for; empty where it has none.
    """

    __slots__ = ("_spaces", "begun", "is_complete", "method")

    def __init__(self) -> None:
        self.begun = b""
        self.is_complete = False
        self.method = b""
        # Those that have come.
        self._spaces = 0

    def take(self, data: bytes) -> bytes | None:
        """Take the next bytes of a line that is not complete.

        Args:
            data: not empty; may reach beyond the line.

        Returns:
            What the parser gets next, as many bytes more or fewer as its name of the method is longer or shorter; empty where the method is
            not complete. None for a line with too many spaces.
        """
        in_method = not self._spaces
        # Empty lines before a request are ignored (RFC 9112, 2.2).
        line = data.lstrip(b"\r\n") if in_method else data
        end = line.find(b"\n")
        if end >= 0:
            self.is_complete = True
        self._spaces += line.count(b" ", 0, end if end >= 0 else len(line))
        if self._spaces > _SPACES:
            return None
        if not in_method:
            return data
        if self.begun:
            line = self.begun + data
        elif not line:
            return data
        found = read_method(line)
        if found is None:
            self.begun = line
            return b""
        self.method = found.method
        return found.line
