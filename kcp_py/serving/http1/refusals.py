"""Responses to malformed and oversized requests. Each ends the connection."""

from __future__ import annotations

from typing import Final

from kcp_py.serving.http1.head import ExpectationError

_REFUSED: Final = b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\nconnection: close\r\n\r\n%b"
_INVALID_BODY: Final = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Invalid HTTP request received.",'
    b'"reason":"BadRequest","code":400}\n'
)
INVALID: Final = _REFUSED % (b"400 Bad Request", b"content-type: application/json\r\n", len(_INVALID_BODY), _INVALID_BODY)
HEAD_TOO_LARGE: Final = _REFUSED % (b"431 Request Header Fields Too Large", b"", 0, b"")
EXPECTATION_FAILED: Final = _REFUSED % (b"417 Expectation Failed", b"", 0, b"")
TOO_MANY_HEADS: Final = _REFUSED % (b"503 Service Unavailable", b"retry-after: 1\r\n", 0, b"")
"""The response where incomplete heads take all the memory that there is for them."""


class TooManyFieldsError(Exception):
    """The head has more than `MAX_FIELDS`."""


def refusal_of(reason: BaseException | None) -> bytes:
    """The response to a request that the parser, or a rule in one of its callbacks, does not take.

    Args:
        reason: what the callback raised; None for the parser's own rules.
    """
    if isinstance(reason, TooManyFieldsError):
        return HEAD_TOO_LARGE
    return EXPECTATION_FAILED if isinstance(reason, ExpectationError) else INVALID
