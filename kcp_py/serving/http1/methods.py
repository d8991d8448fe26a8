"""Methods of requests: any token is one (RFC 9110, 9.1), and the parser takes those of a fixed list.

The parser gets the name of another method in place of one that is not on its list, or that has rules of its own there. The application sees
the method that was sent, as behind Go's `net/http`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_METHOD_BYTES: Final = 64
"""The longest method. The longest registered one has 17 bytes."""
COMMON_METHODS: Final = (b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"HEAD ", b"OPTIONS ")
"""Beginnings of request lines that the parser gets as they are."""

_STAND_IN: Final = b"OPTIONS"
"""The parser treats requests with this method like any other."""
_TOKEN: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


class FoundMethod(NamedTuple):
    """The beginning of a request line with a complete method.

    Attributes:
        method: as it was sent; empty where the parser finds it in the line.
        line: the bytes for the parser.
    """

    method: bytes
    line: bytes


def read_method(begun: bytes) -> FoundMethod | None:
    """Find the method of a request.

    Args:
        begun: the first bytes of a request, without empty lines before them.

    Returns:
        The line for the parser, which refuses a malformed method; None where more bytes are needed.
    """
    method, space, rest = begun.partition(b" ")
    if _TOKEN.fullmatch(method) is None:
        # A method that is too long could still become one of the parser's: without a space it is refused at once.
        return FoundMethod(b"", b" " if len(method) > MAX_METHOD_BYTES else begun)
    if not space:
        return None
    if begun.startswith(COMMON_METHODS):
        return FoundMethod(b"", begun)
    return FoundMethod(method, b"%b %b" % (_STAND_IN, rest))
