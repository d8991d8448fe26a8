"""Limits of what `RequestReader` reads: those that are configured, and constants."""

from __future__ import annotations

from typing import Final, NamedTuple

DRAIN_BYTES: Final = 16 * 1024
"""Bytes of a request that are read behind its response."""
DRAIN_SECONDS: Final = 5.0
"""How long that may take."""
OVERHEAD_PER_BYTE: Final = 8
"""Bytes of framing for each byte of payload: a chunk of one byte has five."""
CHUNKED_SLICE_BYTES: Final = 4096
"""The longest slice of a chunked body: chunks are small objects to the parser, so a turn of the event loop gets few of them."""
HEAD_SLICE_BYTES: Final = 32 * 1024
"""The longest slice of a head. A head that has more than one is large."""
SLICES_PER_TURN: Final = 8
"""Slices that are parsed in one turn of the event loop."""
UNREAD_BYTES: Final = 8 * 1024
"""The longest part of a chunked body that is still parsed where the request was answered before the body was wanted."""
MAX_FIELDS: Final = 16_384
"""Header fields of a request: each is an object, and a megabyte could hold 200,000 of them."""


class ReadLimits(NamedTuple):
    """Limits of what clients send.

    Attributes:
        max_head_bytes: of request line and header fields together. Up to one read more may be buffered.
        head_timeout: seconds until a head is complete.
        idle_timeout: seconds between two requests.
    """

    max_head_bytes: int
    head_timeout: float
    idle_timeout: float
