"""`Slices`: where received bytes are cut before they are parsed, and whether a request is within its limits.

A slice never holds bytes of two requests. It ends behind the head, behind the body, or where it would take too long to parse at once.
Limits are judged by slices, so that a request can exceed them by the length of one.
"""

from __future__ import annotations

from typing import Final

from kcp_py.serving.http1.blankline import BLANK_LINE, BlankLineSearch
from kcp_py.serving.http1.limits import CHUNKED_SLICE_BYTES, DRAIN_BYTES, HEAD_SLICE_BYTES, OVERHEAD_PER_BYTE
from kcp_py.serving.http1.requestline import is_whole_line
from kcp_py.serving.http1.states import State

CHUNKED: Final = -1
"""`Slices.left` of a chunked body."""

_OPENED: Final = State.OPENED
_IDLE: Final = State.IDLE
_HEAD: Final = State.HEAD
_BODY: Final = State.BODY


class Slices:
    """The slices of the requests of one connection.

    Attributes:
        left: bytes of the body that have not come yet; `CHUNKED` where their number is unknown.
        gap: bytes since the beginning of the head, since the last payload of a chunked body, or since the response.
        cut: whether a slice of the request ended because of its length.
        search: finds the ends of heads and trailer sections; has a `tail` where a part of a blank line has come.
    """

    __slots__ = ("_max_head_bytes", "_overhead", "_payload", "cut", "gap", "left", "search")

    def __init__(self, max_head_bytes: int) -> None:
        """Begin with a new connection.

        Args:
            max_head_bytes: limit of a head, and of the bytes of a chunked body without payload in a row.
        """
        self._max_head_bytes = max_head_bytes
        self.search = BlankLineSearch()
        # Bytes of a chunked body that are not payload, and those that are.
        self._overhead = 0
        self._payload = 0
        self.left = 0
        self.gap = 0
        self.cut = False

    def whole_head(self, data: bytes) -> int:
        """Where the head ends that the data of a next request begins with, if it is complete and far from all limits; else 0.

        Nearly all heads are read without the rest of the rules, which give the same result for them.
        """
        if self.search.tail:
            return 0
        end = data.find(BLANK_LINE, 0, CHUNKED_SLICE_BYTES) + len(BLANK_LINE)
        return end if end >= len(BLANK_LINE) and is_whole_line(data) else 0

    def next(self, data: bytes, start: int, state: State) -> int:
        """Where the next slice ends, as an index in `data`; 0 where a limit is exceeded.

        Args:
            data: not parsed from `start` on.
            start: below the length of `data`.
            state: the part of a request that the slice begins in.
        """
        left = self.left
        if left > 0:
            end = min(start + left, len(data))
        else:
            end = self.search.end(data, start)
            longest = CHUNKED_SLICE_BYTES if left else HEAD_SLICE_BYTES
            if end - start > longest:
                end = start + longest
                self.cut = True
                self.search.cut(data, end)
        return end if self._count(end - start, state) else 0

    def _count(self, count: int, state: State) -> bool:
        """Count the bytes of a slice. Returns whether they are within the limits."""
        most = self._max_head_bytes
        if state is _OPENED or state is _IDLE:
            return count <= max(most, CHUNKED_SLICE_BYTES)
        if state is _HEAD:
            self.gap += count
            return self.gap <= most
        if self.left > 0:
            self.left -= count
            if state is _BODY:
                return True
        elif state is _BODY:
            # How much of this slice is payload is not known yet: the slices before it are judged.
            fits = self.gap <= most and self._overhead <= most + OVERHEAD_PER_BYTE * self._payload
            self.gap += count
            self._overhead += count
            return fits
        self.gap += count
        return self.gap <= DRAIN_BYTES

    def begin_body(self, length: int | None) -> None:
        """The head is complete.

        Args:
            length: of the body; None for a chunked one.
        """
        self.cut = False
        self.left = CHUNKED if length is None else length
        self.gap = self._overhead = self._payload = 0

    def count_payload(self, count: int) -> None:
        """A part of the last slices of a chunked body was payload."""
        self.gap = 0
        self._overhead -= count
        self._payload += count

    def end_message(self) -> None:
        """All of a request has been parsed."""
        self.left = 0
        self.search.tail = b""
